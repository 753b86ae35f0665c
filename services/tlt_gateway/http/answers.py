"""What the answers of all protocols share: spans of weight versions, and how long ones are written."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import JsonValue

from tlt_common.domain.ids import PolicyVersion

LARGE = 8192
"""Tokens of an answer from which on a thread is worth its start."""


async def answered(make: Callable[[], Any], *, tokens: int) -> JSONResponse:
    """Return an answer of so many tokens as JSON; a large one is made and encoded in a thread."""
    if tokens < LARGE:
        return JSONResponse(make())
    return await asyncio.to_thread(lambda: JSONResponse(make()))


def spans(versions: Sequence[PolicyVersion]) -> list[JsonValue]:
    """Return the versions of tokens as SGLang writes them: each with the tokens that it generated, `end` excluded."""
    found: list[JsonValue] = []
    begin = 0
    for version, tokens in groupby(versions):
        end = begin + sum(1 for _ in tokens)
        found.append({"version": str(version), "start": begin, "end": end})
        begin = end
    return found
