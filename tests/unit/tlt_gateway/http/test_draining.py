"""Calls that the end of a drain cuts short. Time is virtual, and the server is played by the test."""

import asyncio
import json
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from tlt_common.rpc.drain import END_S, Drain
from tlt_gateway.http.draining import Draining

pytestmark = pytest.mark.looptime


async def called(app: ASGIApp, path: str, *, body: bytes = b"") -> list[dict[str, Any]]:
    """Call an application as a server does; return what it sends."""
    sent: list[Any] = []
    pieces = [body[at : at + 10] for at in range(0, len(body), 10)] or [b""]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message: Any) -> None:
        sent.append(message)

    await asyncio.ensure_future(app({"type": "http", "path": path, "method": "POST"}, receive, send))
    return sent


def slow(*, begins: str = "") -> ASGIApp:
    """Answer after an hour; begin the answer at once if a content type is given."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        if begins:
            headers = [(b"content-type", begins.encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        await asyncio.sleep(3600)

    return app


@pytest.mark.parametrize("path", ["/update_weights_from_disk", "/anything"])
async def test_a_call_that_has_no_answer_yet_gets_one(path: str) -> None:
    drain = Drain()
    call = asyncio.ensure_future(called(Draining(slow(), drain, retry_after_s=3.0), path))
    await asyncio.sleep(1)
    assert not await drain.complete(10)
    start, body = await call
    assert asyncio.get_running_loop().time() <= 1 + 10 + END_S
    headers = dict(start["headers"])
    assert (start["status"], headers[b"retry-after"], headers[b"connection"]) == (503, b"3", b"close")
    assert json.loads(body["body"])["error"]["type"] == "DRAINING"


async def test_a_stream_of_events_ends_with_the_reason_and_anything_else_breaks_off() -> None:
    for begins, count in (("text/event-stream", 2), ("application/json", 1)):
        drain = Drain()
        call = asyncio.ensure_future(called(Draining(slow(begins=begins), drain, retry_after_s=1.0), "/generate"))
        await asyncio.sleep(1)
        assert not await drain.complete(0)
        sent = await call
        assert len(sent) == count
        if count == 2:
            event = sent[1]["body"]
            assert json.loads(event.removeprefix(b"data: "))["error"]["code"] == 503


async def test_a_call_that_is_refused_is_read_to_its_end() -> None:
    drain = Drain()
    await drain.complete(0)
    start, _ = await called(Draining(slow(), drain, retry_after_s=1.0), "/generate", body=b"x" * 95)
    assert start["status"] == 503


async def test_a_call_that_is_cancelled_by_its_server_is_cancelled() -> None:
    call = asyncio.ensure_future(called(Draining(slow(), Drain(), retry_after_s=1.0), "/generate"))
    await asyncio.sleep(1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
