"""Sends requests over HTTP like a trainer, retrying calls that another gateway must answer."""

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import aiohttp

from tlt_bench.campaign.suite.load import Load
from tlt_bench.campaign.suite.requests import Request
from tlt_common.domain.response import TokenChunk

PATIENCE_S = 600.0
"""Seconds for which a call is repeated: an engine starts in minutes on a busy machine."""
PAUSE_S = 0.5
"""Seconds between two attempts at a call, unless the gateway says how long to wait."""
RETRIED = 503


class BrokenOffError(Exception):
    """The connection ended before the answer was complete."""


class HttpLoad:
    """
    Senders with one call in flight each, half of them streaming.

    A call that gets a 503 or is refused a connection is retried at the other gateway. So is one whose connection
    breaks, under the same id; it counts as lost unless its gateway was killed or stopped.

    Args:
        gateways: URLs of the gateways, by name.
        load: The gRPC load, which determines when to send.
        requests: Sent again and again in this order.
        expected: Response of the undisturbed run, by request number.
        senders: Number of senders.
        report: Called with a sentence about each lost or changed response, and the time its request began.
    """

    def __init__(
        self,
        gateways: Mapping[str, str],
        load: Load,
        requests: Sequence[Request],
        expected: Mapping[int, TokenChunk],
        *,
        senders: int,
        report: Callable[[str, float], None],
    ) -> None:
        self._gateways = gateways
        self._load = load
        self._requests = itertools.cycle(requests)
        self._expected = expected
        self._senders = senders
        self._report = report
        self._killed: list[str] = []
        self.answers = self.lost = self.changed = self.repeated = 0

    @contextmanager
    def killing(self, gateway: str) -> Iterator[None]:
        """Expect calls to a gateway to break within the block, since its process is killed or stopped."""
        self._killed.append(gateway)
        try:
            yield
        finally:
            self._killed.remove(gateway)

    async def run(self) -> None:
        """Send until the load is stopped."""
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            for number in range(self._senders if self._gateways else 0):
                group.create_task(self._send(session, streams=number % 2 == 1), name=f"http-sender-{number}")

    async def _send(self, session: aiohttp.ClientSession, *, streams: bool) -> None:
        names = itertools.cycle(self._gateways)
        while await self._load.is_open():
            request, began_s = next(self._requests), time.monotonic()
            answer = await self._answered(session, request, names, streams=streams)
            if answer is None:
                self._lose(request, f"no answer within {PATIENCE_S:g} s", began_s)
                continue
            self.answers += 1
            if answer["output_ids"] != list(self._expected[request.number].token_ids):
                self.changed += 1
                self._report(f"request {request.number} over HTTP changed", began_s)

    async def _answered(
        self, session: aiohttp.ClientSession, request: Request, names: Iterator[str], *, streams: bool
    ) -> dict[str, Any] | None:
        body = body_of(request, stream=streams)
        began_s, ends_s = time.monotonic(), time.monotonic() + PATIENCE_S
        while time.monotonic() < ends_s:
            name = next(names)
            was_killed = name in self._killed
            try:
                status, answer = await _called(session, f"{self._gateways[name]}/generate", body)
            except aiohttp.ClientConnectorError:
                status = RETRIED  # nobody listens: nothing was sent
            except (aiohttp.ClientError, BrokenOffError, OSError) as error:
                status = RETRIED
                self.repeated += 1
                if not (was_killed or name in self._killed):
                    self._lose(request, f"{name} broke it off: {error!r}", began_s)
            if status == 200:
                return answer
            if status != RETRIED:
                self._lose(request, f"{name} answered {status}: {answer}", began_s)
            await asyncio.sleep(PAUSE_S)
        return None

    def _lose(self, request: Request, why: str, began_s: float) -> None:
        self.lost += 1
        self._report(f"request {request.number} over HTTP lost: {why}", began_s)


def body_of(request: Request, *, stream: bool) -> dict[str, Any]:
    """Return a request as the body of SGLang's /generate, with its own id."""
    sampling = request.sampling
    return {
        "rid": uuid4().hex,
        "input_ids": list(request.prompt_ids),
        "stream": stream,
        "sampling_params": {
            "max_new_tokens": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "ignore_eos": sampling.ignore_eos,
            "sampling_seed": sampling.seed,
        },
    }


async def _called(session: aiohttp.ClientSession, url: str, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """
    Return the status of a call and its answer. An error within a stream counts as its status.

    Raises:
        BrokenOffError: A stream ended prematurely.
    """
    timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
    async with session.post(url, json=body, timeout=timeout) as response:
        content = await response.read()
        if not (response.status == 200 and body["stream"]):
            return response.status, json.loads(content) if content.startswith(b"{") else {"text": content.decode()}
    events = [event.removeprefix(b"data: ") for event in content.split(b"\n\n") if event]
    if not events or events[-1] != b"[DONE]":
        raise BrokenOffError(f"the stream ended after {len(events)} events")
    last = json.loads(events[-2])
    return (last["error"]["code"], last) if "error" in last else (200, last)
