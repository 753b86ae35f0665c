"""Answers with many tokens, which would keep the event loop from streaming to others while they are written."""

import asyncio
from collections.abc import Callable
from typing import Any

from fastapi.responses import JSONResponse

LARGE = 8192
"""Tokens of an answer from which on a thread is worth its start."""


async def answered(make: Callable[[], Any], *, tokens: int) -> JSONResponse:
    """Return an answer of so many tokens as JSON; a large one is made and encoded in a thread."""
    if tokens < LARGE:
        return JSONResponse(make())
    return await asyncio.to_thread(lambda: JSONResponse(make()))
