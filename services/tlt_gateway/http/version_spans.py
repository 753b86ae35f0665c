"""Which tokens of a response were generated with which weights."""

from collections.abc import Sequence
from itertools import groupby

from pydantic import JsonValue

from tlt_common.domain.ids import PolicyVersion


def spans(versions: Sequence[PolicyVersion]) -> list[JsonValue]:
    """Return the versions of tokens as SGLang writes them: each with the tokens that it generated, `end` excluded."""
    found: list[JsonValue] = []
    begin = 0
    for version, tokens in groupby(versions):
        end = begin + sum(1 for _ in tokens)
        found.append({"version": str(version), "start": begin, "end": end})
        begin = end
    return found
