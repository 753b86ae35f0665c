"""A request's stop strings, as passed in SGLang's custom parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tlt_common.domain.prompt import SamplingParams

TOKENIZER = "tokenizer.json"
"""The file of a model's directory without which stop strings are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopStrings:
    """The stop strings of one request."""

    strings: tuple[str, ...]
    min_tokens: int
    """Number of initial response tokens that no stop string can end."""
    tokenizer: str
    """Path of the model's tokenizer.json."""

    @classmethod
    def packed(cls, sampling: SamplingParams, model: Path) -> list[Any] | None:
        """Encode a request's stop strings for SGLang's custom parameters; None if it has none."""
        return [list(sampling.stop), sampling.min_new_tokens, str(model / TOKENIZER)] if sampling.stop else None

    @classmethod
    def of(cls, request: Any) -> "StopStrings | None":
        """Return the stop strings of an SGLang request; None if it has none."""
        custom: Mapping[str, Any] = request.sampling_params.custom_params or {}
        if not (found := custom.get("tlt_stop")):
            return None
        strings, min_tokens, tokenizer = found
        return cls(strings=tuple(strings), min_tokens=int(min_tokens), tokenizer=tokenizer)
