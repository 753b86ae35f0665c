"""Load on both servers in turn, in one run."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

import psutil

from tlt_bench.gateway import choosing, servers
from tlt_bench.gateway.processes import process
from tlt_bench.ratios import Figures, over
from tlt_bench.result import Result
from tlt_common.client import Client
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.rpc.channel import plain
from tlt_common.wire import rollout as wire

CHUNKS = 32
"""Messages per response."""
AT_ONCE = 32
"""Requests in flight when throughput is measured."""
SECONDS = 5.0
ALONE = 200
"""Requests, one after the other, when latency is measured."""
REPEATS = 3
PACED_AT_ONCE = 64
PROMPT = (1,) * 64
PACED_CHUNKS = 150


def measure() -> Result:
    """Compare the gateway to the bare server, and the choice of a worker in fleets of several sizes."""
    chosen = choosing.measure()
    with (
        process(servers.serve_bare) as (bare, bare_pid),
        process(servers.serve_worker) as (worker, _),
        process(servers.serve_gateway, worker) as (gateway, pid),
    ):
        compared = asyncio.run(_measured(MeasuredLoad(bare, bare_pid), MeasuredLoad(gateway, pid)))
    compared.merge(chosen)
    return compared.result("gateway", repeats=REPEATS)


class MeasuredLoad(NamedTuple):
    """A server under load."""

    address: str
    pid: int

    def cpu_s(self) -> float:
        """Return its CPU time in seconds."""
        times = psutil.Process(self.pid).cpu_times()
        return times.user + times.system


async def _measured(bare_server: MeasuredLoad, gateway_server: MeasuredLoad) -> Figures:
    bare, gateway = bare_server.address, gateway_server.address
    async with Client(gateway) as client:
        await client.wait_ready(30)
    rates, bare_rates, added_ms, shares = list[float](), list[float](), list[float](), list[float]()
    for _ in range(REPEATS):
        rates.append(await _rate(gateway))
        bare_rates.append(await _rate(bare))
        added_ms.append(1000 * (await _latency_s(gateway) - await _latency_s(bare)))
        shares.append(await _paced_cpu_s(gateway_server) / await _paced_cpu_s(bare_server))
    found = Figures()
    found.add("requests_per_s", rates)
    found.add(
        "vs_bare_grpc",
        over(rates, bare_rates),
        f"requests/s, {AT_ONCE} at a time, each of {CHUNKS} rounds that are ready at once: the bare server sends a "
        "message per round, the gateway merges rounds that it receives together",
    )
    found.add("added_ms_p50", added_ms, "one request at a time, of one round")
    found.add(
        "cpu_vs_bare_grpc",
        shares,
        f"processor time of the gateway per response, {PACED_AT_ONCE} at a time, a round every "
        f"{1000 * servers.ROUND_S:g} ms, over that of the bare server",
    )
    return found


async def _rate(address: str) -> float:
    """Return completed requests per second."""
    async with plain(address) as channel:
        return await rate_of(partial(request, wire.Stub(channel), CHUNKS))


async def rate_of(call: Callable[[], Awaitable[None]]) -> float:
    """Return completed calls per second, `AT_ONCE` at a time."""
    ends_s = time.perf_counter() + SECONDS

    async def load() -> int:
        count = 0
        while time.perf_counter() < ends_s:
            await call()
            count += 1
        return count

    began_s = time.perf_counter()
    counts = await asyncio.gather(*(load() for _ in range(AT_ONCE)))
    return sum(counts) / (time.perf_counter() - began_s)


async def _latency_s(address: str) -> float:
    """Return the median seconds of a response of one message, without other load."""
    async with plain(address) as channel:
        return await latency_of(partial(request, wire.Stub(channel), 1))


async def latency_of(call: Callable[[], Awaitable[None]]) -> float:
    """Return the median seconds of a call, one at a time."""
    taken_s = []
    for _ in range(ALONE):
        began_s = time.perf_counter()
        await call()
        taken_s.append(time.perf_counter() - began_s)
    return statistics.median(taken_s)


async def _paced_cpu_s(server: MeasuredLoad) -> float:
    """Return the CPU seconds of responses whose rounds arrive at an engine's pace."""
    async with plain(server.address) as channel:
        stub = wire.Stub(channel)
        before_s = server.cpu_s()
        await asyncio.gather(*(request(stub, PACED_CHUNKS, seed=servers.PACED) for _ in range(PACED_AT_ONCE)))
        return server.cpu_s() - before_s


async def request(stub: wire.AsyncStub, tokens: int, *, seed: int | None = None) -> None:
    """Make a request over gRPC and read its response."""
    sampling = SamplingParams(max_new_tokens=tokens, seed=seed)
    prompt = Prompt(request_id=RequestId(""), token_ids=PROMPT, sampling=sampling)
    async for _ in stub.Generate(wire.pb.GenerateRequest(prompt=wire.prompt_to_pb(prompt))):
        pass
