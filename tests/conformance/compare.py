"""Compares an answer with SGLang's, field by field. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

LOGPROB = 2e-3
"""Difference of a number: the kernels of the two servers round differently."""
VARYING = frozenset({
    "id", "created", "timestamp", "e2e_latency", "response_sent_to_client_ts", "model", "message", "text_offset",
    "owned_by", "root", "version", "model_path", "served_model_name", "tokenizer_path", "cached_tokens",
})  # fmt: skip
"""Fields that differ between any two servers or calls: only their types are compared. SGLang's offsets are all -1."""


def differences(theirs: Any, ours: Any, *, missing: frozenset[str] = frozenset(), path: str = "") -> list[str]:
    """
    Return the fields of SGLang's answer that ours lacks, or whose types or values differ.

    Args:
        theirs: SGLang's answer.
        ours: Ours, which may have more fields.
        missing: Names of fields that are not compared.
        path: Where the answers are found, for messages.
    """
    return list(_differences(theirs, ours, missing, path))


def _differences(theirs: Any, ours: Any, missing: frozenset[str], path: str) -> Iterator[str]:
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for name, value in theirs.items():
            place = f"{path}.{name}" if path else name
            if name in missing:
                continue
            if name not in ours:
                yield f"{place} is missing; SGLang: {value!r:.80}"
            elif name in VARYING:
                if type(value) is not type(ours[name]):
                    yield f"{place} is {ours[name]!r:.80}; SGLang: {value!r:.80}"
            else:
                yield from _differences(value, ours[name], missing, place)
    elif isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            yield f"{path} has {len(ours)} entries; SGLang: {len(theirs)}"
        for index, (one, other) in enumerate(zip(theirs, ours, strict=False)):
            yield from _differences(one, other, missing, f"{path}[{index}]")
    elif not is_same(theirs, ours):
        yield f"{path} is {ours!r:.80}; SGLang: {theirs!r:.80}"


def is_same(theirs: Any, ours: Any) -> bool:
    """Return whether two values have the same type and content, numbers up to rounding."""
    if isinstance(theirs, float) and isinstance(ours, float):
        return abs(theirs - ours) <= LOGPROB
    if isinstance(theirs, list | tuple) and isinstance(ours, list | tuple):
        return len(theirs) == len(ours) and all(map(is_same, theirs, ours))
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return theirs.keys() == ours.keys() and all(is_same(value, ours[name]) for name, value in theirs.items())
    return type(theirs) is type(ours) and bool(theirs == ours)
