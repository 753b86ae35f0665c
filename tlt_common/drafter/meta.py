"""Files of a published drafter and the contents of meta.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tlt_common.documents import json_of
from tlt_common.errors import WeightsError

WEIGHTS_FILE: Final = "model.safetensors"
CONFIG_FILE: Final = "config.json"
META_FILE: Final = "meta.json"
"""Written last: a directory that contains it is complete."""

UNKNOWN_TOKENS: Final = 1_000_000
"""What a drafter that was trained elsewhere counts as trained on. Most were on far more; it decides how fast training
changes what they know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterMeta:
    """Origin and quality of a published drafter."""

    version: int
    """Version it gets if it is accepted: `base` plus one."""
    base: int
    """Version it was trained from; 0 means from scratch."""
    worker_id: str
    steps: int
    tokens: int
    """
    Tokens that it has learned from, including repetitions.

    A drafter trained elsewhere starts at `UNKNOWN_TOKENS`.
    """
    held_out_top1: float


def meta_of(files: Mapping[str, bytes]) -> DrafterMeta:
    """
    Parse meta.json.

    Raises:
        WeightsError: The file is missing or invalid.
    """
    try:
        return DrafterMeta(**json_of(files[META_FILE]))
    except (KeyError, TypeError, ValueError) as error:
        raise WeightsError(f"the drafter's {META_FILE} is missing or invalid: {error}") from error


def training_of(files: Mapping[str, bytes]) -> tuple[int, int]:
    """
    Return the steps and tokens that a drafter was trained for: 0 and `UNKNOWN_TOKENS` without meta.json.

    Raises:
        WeightsError: As for `meta_of`.
    """
    if META_FILE not in files:
        return 0, UNKNOWN_TOKENS
    meta = meta_of(files)
    return meta.steps, meta.tokens
