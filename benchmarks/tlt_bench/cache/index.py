"""Reads of one take from a large index, as counted by Redis."""

import asyncio
from pathlib import Path

from redis.asyncio import Redis

from tlt_bench.cache.frames import MIB, random_frame
from tlt_bench.engines.bench_engine import log
from tlt_bench.ratios import Figures
from tlt_bench.scratch import scratch
from tlt_cache.embedded import embedded_redis
from tlt_cache.redis_frame_store import RedisFrameStore

SIZES = (10_000, 100_000)
BATCH = 500
MAX_TOKENS = 1024
"""Tokens of one take: as many frames, since each has one state."""


def measure() -> Figures:
    """Fill an index, and count the commands and bytes of one take at each size."""
    return asyncio.run(_measure())


async def _measure() -> Figures:
    found, counts = Figures(), list[tuple[int, int]]()
    with scratch() as directory:
        async with embedded_redis(Path(directory), max_bytes=4096 * MIB) as redis, Redis.from_url(redis.url) as raw:
            store = RedisFrameStore(redis.url, fleet="bench", budget_bytes=2048 * MIB)
            stored = 0
            for size in SIZES:
                while stored < size:
                    frames = [random_frame(stored + n, tokens=1, hidden_size=16) for n in range(BATCH)]
                    stored += await store.put(frames)
                counts.append(await _take(store, raw))
                log(f"  {size} frames: {counts[-1][0]} commands, {counts[-1][1]} bytes")
                commands, read_bytes = counts[-1]
                found.add(f"take_commands_{size // 1000}k", [commands], "Redis commands of one take of 1,024 frames")
                found.add(f"take_bytes_{size // 1000}k", [read_bytes], "bytes Redis sent for it")
            await store.aclose()
    found.add("take_bytes_ratio", [counts[-1][1] / counts[0][1]], "at 100,000 frames ÷ at 10,000")
    return found


async def _take(store: RedisFrameStore, raw: Redis) -> tuple[int, int]:
    """Return the number of commands and bytes of one take."""
    before = await raw.info("stats")
    async for _ in store.take(max_tokens=MAX_TOKENS, seed=1):
        pass
    after = await raw.info("stats")
    commands = after["total_commands_processed"] - before["total_commands_processed"] - 1
    return commands, after["total_net_output_bytes"] - before["total_net_output_bytes"]
