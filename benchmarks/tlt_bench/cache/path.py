"""
Bytes per second from a worker's sender through the cache and Redis to a trainer, and of Redis alone.

Redis has the first core. The side that talks to it has the second: the cache service, or the raw client. The sender and
the trainer are in this process, which shares the first core with Redis while the path is measured.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvloop
from redis.asyncio import Redis

from tlt_bench.cache.frames import MIB, random_frame
from tlt_bench.engines.bench_engine import log
from tlt_bench.ratios import Figures, over
from tlt_bench.scratch import scratch
from tlt_bench.served import served
from tlt_cache.embedded import embedded_redis
from tlt_common.codec import read
from tlt_common.domain.hidden import EncodedFrame
from tlt_common.rpc.channel import connect
from tlt_common.wire import hidden as wire
from tlt_trainer.data.frame_source import CacheClient

HIDDEN_SIZE = 4096
FRAME_TOKENS = (32, 256)
"""States per frame: 256 KiB and 2 MiB in bfloat16."""
BYTES = 256 * MIB
"""Payload of one repeat."""
PIPELINE_BYTES = 8 * MIB
"""Payload of one pipeline of the raw client."""
DIFFERENT = 8
"""Different payloads; one in each cache line would take long to make."""
BUDGET_BYTES = 2048 * MIB
TIMEOUT_S = 120.0

Seconds = tuple[float, float]
"""Seconds of writing and of reading."""


def measure(*, repeats: int) -> Figures:
    """Measure both sides in turns, for each frame size."""
    return uvloop.run(_measure(repeats))


async def _measure(repeats: int) -> Figures:
    found, cores = Figures(), sorted(os.sched_getaffinity(0))
    redis_core, client_core = cores[0], cores[-1]
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(scratch()))
        redis = await stack.enter_async_context(embedded_redis(directory, max_bytes=4096 * MIB))
        os.sched_setaffinity(redis.pid, {redis_core})
        os.sched_setaffinity(0, {client_core})  # the service inherits it
        config = {"listen": "127.0.0.1:0", "redis": redis.url, "budget_bytes": BUDGET_BYTES}
        service = stack.enter_context(served("cache", config, directory))
        channel = await stack.enter_async_context(connect(service.ports["grpc"]))
        raw = await stack.enter_async_context(Redis.from_url(redis.url))
        for tokens in FRAME_TOKENS:
            made = [random_frame(number, tokens=tokens, hidden_size=HIDDEN_SIZE) for number in range(DIFFERENT)]
            count = BYTES // made[0].size_bytes
            frames = [made[number % DIFFERENT] for number in range(count)]
            sides: dict[str, list[Seconds]] = {"raw": [], "path": []}
            for repeat in range(-1, repeats):
                os.sched_setaffinity(0, {client_core})
                raw_s = await _raw(raw, frames)
                await raw.flushall()
                os.sched_setaffinity(0, {redis_core})
                path_s = await _path(wire.Stub(channel), CacheClient(channel), frames)
                await raw.flushall()
                if repeat >= 0:  # the first warms up
                    sides["raw"].append(raw_s)
                    sides["path"].append(path_s)
                    log(f"  {tokens} states: raw {sum(raw_s):.2f} s, path {sum(path_s):.2f} s")
            _add(found, f"{made[0].size_bytes // 1024}k", count * made[0].size_bytes, sides)
        os.sched_setaffinity(0, cores)
    return found


def _add(found: Figures, size: str, total_bytes: int, sides: dict[str, list[Seconds]]) -> None:
    for side, seconds in sides.items():
        rates = [total_bytes / sum(pair) / MIB for pair in seconds]
        found.add(f"{side}_mib_per_s_{size}", rates, "one core each; sender and trainer share Redis' core")
    raw, way = sides["raw"], sides["path"]
    found.add(f"vs_raw_redis_{size}", over([sum(pair) for pair in raw], [sum(pair) for pair in way]))
    for at, name in enumerate(("put", "take")):
        found.add(f"{name}_vs_raw_redis_{size}", over([pair[at] for pair in raw], [pair[at] for pair in way]))


async def _raw(redis: Redis, frames: Sequence[EncodedFrame]) -> Seconds:
    pipelined = max(1, PIPELINE_BYTES // frames[0].header.hidden_bytes)
    began_s = time.perf_counter()
    for at in range(0, len(frames), pipelined):
        pipeline = redis.pipeline(transaction=False)
        for number, frame in enumerate(frames[at : at + pipelined], at):
            pipeline.set(str(number), frame.blob)
        await pipeline.execute()
    written_s = time.perf_counter()
    for at in range(0, len(frames), pipelined):
        pipeline = redis.pipeline(transaction=False)
        for number in range(at, min(at + pipelined, len(frames))):
            pipeline.get(str(number))
        await pipeline.execute()
    return written_s - began_s, time.perf_counter() - written_s


async def _path(stub: Any, client: CacheClient, frames: Sequence[EncodedFrame]) -> Seconds:
    """
    Put frames as a worker does, and take them as a trainer does.

    Raises:
        RuntimeError: A frame was lost.
    """
    async with asyncio.timeout(TIMEOUT_S):
        began_s = time.perf_counter()
        response = await stub.Put(map(wire.put_request, frames), timeout=TIMEOUT_S)
        written_s = time.perf_counter()
        taken = 0
        async for cached in client.take(max_tokens=2**31 - 1, seed=1, newer_than={}):
            taken += read(cached.blob).size_bytes > 0
        ended_s = time.perf_counter()
    if response.kept_count != len(frames) or taken != len(frames):
        raise RuntimeError(f"{len(frames)} frames were sent, {response.kept_count} stored and {taken} taken")
    return written_s - began_s, ended_s - written_s
