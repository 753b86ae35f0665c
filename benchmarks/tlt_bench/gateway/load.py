"""A gateway under open streams, a long queue and a slow reader, and the effect on a second caller."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import yaml

from tlt_bench.engines.bench_engine import log
from tlt_bench.gateway import fairness, servers
from tlt_bench.gateway.processes import process
from tlt_bench.result import Result
from tlt_common.client import Client, SamplingParams

QUEUED = 16384
SLOTS = 64
LONG = 4096
"""Tokens per response to the slow reader."""
SLOW = 4096
"""Samples of the slow reader: 16 Mi tokens, four times what a gateway holds."""
SLOW_S = 20.0
OPEN_S = 300.0
OTHERS = 50
"""Requests of the second caller in each situation, one after the other."""
CROWD, OTHER = "crowd-0123456789abcdef", "other-0123456789abcdef"


@dataclass(frozen=True, slots=True)
class LoadedGateway:
    """A gateway under load, and its two callers."""

    pid: int
    crowd: Client
    other: Client

    @property
    def rss_mib(self) -> float:
        """Memory of its process."""
        return float(psutil.Process(self.pid).memory_info().rss / 2**20)

    async def other_ms(self) -> float:
        """Return the median milliseconds of a response of one token for the second caller."""
        taken = []
        for _ in range(OTHERS):
            began_s = time.perf_counter()
            await self.other.generate([1], SamplingParams(max_new_tokens=1))
            taken.append(1000 * (time.perf_counter() - began_s))
        return statistics.median(taken)


def measure(streams: int) -> Result:
    """Run the situations, each with a separate gateway."""
    with TemporaryDirectory(prefix="tlt-bench-") as scratch:
        tokens = Path(scratch) / "tokens"
        named = [{"name": name.partition("-")[0], "token": name, "scopes": ["generate"]} for name in (CROWD, OTHER)]
        tokens.write_text(yaml.safe_dump({"tokens": named}))
        figures: dict[str, float] = {}
        for situation in (_open_streams(tokens, streams), _queue(tokens), _slow_reader(tokens)):
            figures |= asyncio.run(situation)
    figures |= asyncio.run(fairness.measure())
    return Result(
        name="load",
        figures=figures,
        spread={},
        repeats=1,
        notes={
            "streams": "responses open at a time; streams_lost of them were not complete in the end",
            "queued": f"samples of one batch in the queue of a worker with {SLOTS} slots",
            "slow": f"a batch of {SLOW} samples of {LONG} tokens, whose caller reads one and nothing for {SLOW_S:g} s",
            "other_ms": "median of one-token responses for a caller with a token of its own, alone and during each",
            "rss_mib": "of the gateway's process",
            "fair_share": f"requests served of an equal share of {fairness.SLOTS} slots, or of what an owner could use "
            f"if that is less, of {len(fairness.AT_ONCE)} owners with {fairness.AT_ONCE} requests at a time; the owner "
            "with the least, and with the most",
        },
    )


@asynccontextmanager
async def _gateway(tokens: Path, slots: int) -> AsyncIterator[LoadedGateway]:
    with (
        process(servers.serve_worker, str(slots)) as (worker, _),
        process(servers.serve_gateway, worker, str(tokens)) as (address, pid),
    ):
        async with Client(address, token=CROWD) as crowd, Client(address, token=OTHER) as other:
            await crowd.wait_ready(30)
            yield LoadedGateway(pid, crowd, other)


async def _open_streams(tokens: Path, count: int) -> dict[str, float]:
    async with _gateway(tokens, servers.MAX_RUNNING) as gateway:
        before, alone_ms = gateway.rss_mib, await gateway.other_ms()
        held = SamplingParams(max_new_tokens=2, seed=servers.HELD)
        began_s = time.perf_counter()
        answers = [asyncio.ensure_future(gateway.crowd.generate([1], held)) for _ in range(count)]
        async with asyncio.timeout(OPEN_S):
            while (await gateway.other.info()).running < count:  # noqa: ASYNC110 - the awaited state is in another process
                await asyncio.sleep(0.1)
        opened_s = time.perf_counter() - began_s
        log(f"{count} streams open after {opened_s:.1f} s")
        during_ms, rss = await gateway.other_ms(), gateway.rss_mib
        await gateway.other.generate([1], SamplingParams(max_new_tokens=1, seed=servers.RELEASE))
        found = await asyncio.gather(*answers, return_exceptions=True)
        lost = sum(isinstance(answer, BaseException) or len(answer.token_ids) != 2 for answer in found)
    return {
        "streams": float(count),
        "streams_lost": float(lost),
        "streams_open_s": opened_s,
        "streams_rss_mib": rss,
        "idle_rss_mib": before,
        "other_ms_alone": alone_ms,
        "other_ms_streams": during_ms,
    }


async def _queue(tokens: Path) -> dict[str, float]:
    async with _gateway(tokens, SLOTS) as gateway:
        paced = SamplingParams(max_new_tokens=50, seed=servers.PACED)
        batch = asyncio.ensure_future(gateway.crowd.batch([[1]], QUEUED, paced))
        async with asyncio.timeout(OPEN_S):
            while not (await gateway.other.info()).queued:  # noqa: ASYNC110 - the awaited state is in another process
                await asyncio.sleep(0.1)
        during_ms, rss = await gateway.other_ms(), gateway.rss_mib
        queued = (await gateway.other.info()).queued
        log(f"{queued} requests queued: {during_ms:.1f} ms for another caller")
        batch.cancel()
        with suppress(asyncio.CancelledError):
            await batch
    return {"queued": float(queued), "queued_rss_mib": rss, "other_ms_queued": during_ms}


async def _slow_reader(tokens: Path) -> dict[str, float]:
    async with _gateway(tokens, SLOTS) as gateway:
        long = SamplingParams(max_new_tokens=LONG, seed=servers.WHOLE)
        samples = gateway.crowd.stream_batch([[1]], SLOW, long)
        await anext(samples)
        worst, until_s, during = 0.0, time.perf_counter() + SLOW_S, list[float]()
        while time.perf_counter() < until_s:
            during.append(await gateway.other_ms())
            worst = max(worst, gateway.rss_mib)
            await asyncio.sleep(0.5)
        log(f"slow reader: at most {worst:.0f} MiB")
        await samples.aclose()
    return {"slow_rss_mib": worst, "other_ms_slow": statistics.median(during)}
