"""Answers as server-sent events, as SGLang and OpenAI stream them."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from fastapi.responses import StreamingResponse

from tlt_common.errors import TltError
from tlt_gateway.http.failures import content_of


def streamed(answers: AsyncGenerator[Mapping[str, Any], None]) -> StreamingResponse:
    """Return a response that sends each answer, an error if they end with one, and [DONE]."""
    return StreamingResponse(_events(answers), media_type="text/event-stream")


async def _events(answers: AsyncGenerator[Mapping[str, Any], None]) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(answers):
            async for answer in answers:
                yield _event(answer)
    except TltError as error:  # the status has been sent
        yield _event(content_of(error))
    yield b"data: [DONE]\n\n"


def _event(answer: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(answer).encode() + b"\n\n"
