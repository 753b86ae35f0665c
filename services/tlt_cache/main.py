"""Startup of the cache: the store, its gRPC service, and health checks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from tlt_cache.config import CacheConfig
from tlt_cache.embedded import embedded_redis
from tlt_cache.frame_store import FrameStore
from tlt_cache.gate import CaptureGate
from tlt_cache.memory_frame_store import MemoryFrameStore
from tlt_cache.redis_frame_store import RedisFrameStore
from tlt_cache.servicer import HiddenStateServicer
from tlt_common.config.redis_url import connection_options, shown_redis_url
from tlt_common.domain.hidden import CapturePolicy
from tlt_common.rpc.app import run_app
from tlt_common.rpc.security.access import Roles
from tlt_common.rpc.server import Service, internal, serving
from tlt_common.telemetry.log import get_logger
from tlt_common.telemetry.optional import kept_running
from tlt_common.wire import hidden as wire

log = get_logger(__name__)

MIB = 2**20

PROBE_EVERY_S = 1.0
"""Seconds between health checks of the store. While it is unreachable, engines capture nothing, so that at most a
second of frames is captured in vain."""
CALLERS = Roles(dict.fromkeys(wire.METHODS, ("worker",)))
"""Only workers may call. Spot trainers run as part of their workers."""


def run(config: CacheConfig) -> None:
    """Serve until SIGTERM."""
    import uvloop

    # Frames of megabytes: asyncio's own loop copies what a socket does not take at once (docs/results/services.md).
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    run_app(config, lambda: serve(config))


async def serve(config: CacheConfig) -> None:
    """Serve until cancelled."""
    async with cache_service(config):
        await asyncio.Event().wait()


@asynccontextmanager
async def cache_service(config: CacheConfig) -> AsyncIterator[int]:
    """
    Run the service with its store and health checks; yield its port.

    Raises:
        ConfigError: The embedded Redis cannot be used.
    """
    async with opened_store(config) as store, asyncio.TaskGroup() as parts:
        gate = CaptureGate(
            CapturePolicy(
                enabled=config.capture.sample_ratio > 0,
                sample_ratio=config.capture.sample_ratio,
                state_bits=config.capture.state_bits,
            )
        )
        servicer = HiddenStateServicer(store, gate)
        service = Service(name=wire.SERVICE_NAME, add=lambda server: wire.add_servicer(servicer, server))
        async with serving(config.listen, service, security=internal(config.tls, CALLERS)) as server:
            log.info("cache_serving", port=server.port, redis=shown_redis_url(config.redis))
            probing = kept_running("probe", partial(gate.probe, store, PROBE_EVERY_S))
            probe = parts.create_task(probing, name="probe")
            try:
                yield server.port
            finally:
                probe.cancel()


@asynccontextmanager
async def opened_store(config: CacheConfig) -> AsyncIterator[FrameStore]:
    """
    Open the configured store. An unreachable Redis is not an error: the store recovers once it is reachable.

    Raises:
        ConfigError: The embedded Redis cannot be used.
    """
    url = config.redis.get_secret_value()
    if url == "memory":
        yield MemoryFrameStore(budget_bytes=config.budget_bytes)
    elif url == "embedded":
        # Twice the budget: Redis' limit includes its buffers, which hold frames on their way in and out.
        limit = 2 * config.budget_bytes + 64 * MIB
        private_redis = embedded_redis(config.run_dir, max_bytes=limit, liveness_s=config.liveness_s)
        async with private_redis as redis, asyncio.TaskGroup() as parts:
            guard = parts.create_task(redis.run(), name="redis")
            try:
                async with _redis_store(config, redis.url) as store:
                    yield store
            finally:
                guard.cancel()
    else:
        async with _redis_store(config, url) as store:
            yield store


@asynccontextmanager
async def _redis_store(config: CacheConfig, url: str) -> AsyncIterator[FrameStore]:
    store = RedisFrameStore(
        url,
        fleet=config.fleet,
        budget_bytes=config.budget_bytes,
        tls=connection_options(url, config.redis_ca),
        shards=config.shards,
    )
    try:
        yield store
    finally:
        await store.aclose()
