"""The campaign's load over HTTP finds every call that a gateway breaks off, and only those."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from tlt_bench.campaign.suite.http_load import HttpLoad
from tlt_bench.campaign.suite.load import Load
from tlt_bench.campaign.suite.requests import draw
from tlt_common.domain.ids import RequestId
from tlt_common.domain.response import TokenChunk

REQUESTS = draw(1, seed=1, min_tokens=4, max_tokens=8)[:1]
TOKENS = (1, 2, 3)
EXPECTED = {
    REQUESTS[0].number: TokenChunk(request_id=RequestId("r"), token_ids=TOKENS, logprobs=(), policy_versions=())
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Gateways:
    """Two servers, of which the first does what a test says, and the second answers."""

    def __init__(self) -> None:
        self.first: Handler = self.answer
        self.rids: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        found = {"output_ids": list(TOKENS)}
        if (await request.json())["stream"]:
            return web.Response(body=f"data: {json.dumps(found)}\n\ndata: [DONE]\n\n".encode())
        return web.json_response(found)

    async def generate(self, request: web.Request) -> web.StreamResponse:
        self.rids.append((await request.json())["rid"])
        return await (self.first(request) if len(self.rids) == 1 else self.answer(request))


async def refuse(_request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {}}, status=503)


async def fail(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="Internal Server Error", status=500)


async def hang_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    await asyncio.sleep(0)
    return web.Response()


async def end_early(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=b'data: {"output_ids": [1]}\n\n')


async def say_why(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=b'data: {"error": {"code": 503}}\n\ndata: [DONE]\n\n')


async def change(_request: web.Request) -> web.StreamResponse:
    return web.json_response({"output_ids": [9]})


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/generate", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Once:
    """Lets each sender send one request."""

    def __init__(self, senders: int) -> None:
        self._left = senders

    async def is_open(self) -> bool:
        self._left -= 1
        return self._left >= 0


@pytest.mark.parametrize(
    ("first", "streams", "lost", "changed"),
    [
        (None, False, 0, 0),
        (refuse, False, 0, 0),
        (fail, False, 1, 0),
        (hang_up, False, 1, 0),
        (change, False, 0, 1),
        (end_early, True, 1, 0),
        (say_why, True, 0, 0),
    ],
)
@pytest.mark.parametrize("killed", [False, True])
async def test_a_call_is_lost_if_its_gateway_breaks_it_off_without_being_killed(
    monkeypatch: pytest.MonkeyPatch, first: Handler | None, streams: bool, lost: int, changed: int, killed: bool
) -> None:
    monkeypatch.setattr("tlt_bench.campaign.suite.http_load.PAUSE_S", 0.0)
    gateways, found = Gateways(), list[str]()
    gateways.first = first or gateways.answer
    async with served(gateways.generate) as one, served(gateways.generate) as two:
        load = HttpLoad(
            {"one": one, "two": two},
            cast("Load", Once(1)),
            REQUESTS,
            EXPECTED,
            senders=1,
            report=lambda what, _at_s: found.append(what),
        )
        if streams:
            monkeypatch.setattr(load, "run", lambda: _streaming(load))
        if killed:
            with load.killing("one"):
                await load.run()
        else:
            await load.run()
    excused = killed and first in {hang_up, end_early}
    assert (load.lost, load.changed, load.answers) == (0 if excused else lost, changed, 1), found
    assert len(set(gateways.rids)) == 1, "a call is repeated under its id"


async def _streaming(load: HttpLoad) -> None:
    async with aiohttp.ClientSession() as session:
        await cast("Any", load)._send(session, streams=True)
