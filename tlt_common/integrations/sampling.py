"""Sampling parameters under vLLM's names, which trainers use for all engines."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tlt_common.domain.prompt import SamplingParams
from tlt_common.errors import InvalidRequestError
from tlt_common.text.end_tokens import ids_of

_SAME = frozenset({
    "temperature", "top_p", "min_p", "ignore_eos", "seed",
    "frequency_penalty", "presence_penalty", "repetition_penalty",
})  # fmt: skip
_RENAMED: Mapping[str, str] = {"max_tokens": "max_new_tokens", "min_tokens": "min_new_tokens"}
_TRANSLATED = frozenset({"top_k", "stop", "stop_token_ids", "logprobs"})
_NONE: Mapping[str, tuple[Any, ...]] = {
    "n": (1, None), "bad_words": (None, []), "logit_bias": (None, {}), "structured_outputs": (None,),
    "prompt_logprobs": (None,),
}  # fmt: skip
"""Parameters that have no effect here, with the values that ask for none."""
_NAMES = _SAME | _RENAMED.keys() | _TRANSLATED
KNOWN = _NAMES | _NONE.keys()
"""Parameters that are translated, or refused unless they ask for nothing; others are refused."""


def arguments_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return arguments for SamplingParams. Missing ones and None are omitted.

    Raises:
        InvalidRequestError: A parameter is not supported; the message names it.
    """
    for name, value in params.items():
        if name in _NONE and value not in _NONE[name]:
            raise InvalidRequestError(f"{name} is {value!r:.80}; accepted: {_NONE[name][0]!r}", field=name)
        if name not in _NONE and name not in _NAMES:
            accepted = ", ".join(sorted(_NAMES))
            raise InvalidRequestError(f"{name} is not a sampling parameter here; accepted: {accepted}", field=name)
    given = {name: value for name, value in params.items() if value is not None and name in _NAMES}
    if (logprobs := given.pop("logprobs", False)) not in (False, True):  # 0 and 1, too
        raise InvalidRequestError(
            f"logprobs is {logprobs!r:.80}; accepted: true or false, 0 or 1, of the sampled tokens", field="logprobs"
        )
    found = {_RENAMED.get(name, name): value for name, value in given.items()}
    if found.get("top_k") == -1:
        found["top_k"] = 0  # keeps all candidates, too
    if "stop_token_ids" in found:
        found["stop_token_ids"] = tuple(found["stop_token_ids"])
    if (stop := found.pop("stop", None)) is not None:
        found["stop"] = tuple([stop] if isinstance(stop, str) and stop else stop)
    return found


def ending_at(sampling: SamplingParams, end_token_ids: tuple[int, ...]) -> SamplingParams:
    """
    Add end tokens of the trainer's tokenizer, as vLLM does; ignored with `ignore_eos`.

    Workers only know the end tokens of their initial model, and a trainer may have changed its tokenizer's.
    """
    if sampling.ignore_eos:
        return sampling
    return replace(sampling, stop_token_ids=tuple(dict.fromkeys((*sampling.stop_token_ids, *end_token_ids))))


def end_tokens_of(*named: Any) -> tuple[int, ...]:
    """Return the end tokens that transformers' tokenizers and generation configs name as `eos_token_id`."""
    return tuple(dict.fromkeys(token for one in named for token in ids_of(getattr(one, "eos_token_id", None))))
