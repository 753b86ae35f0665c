"""Start-up of the cache: a store, the service in front of it, and a watch over both."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tlt_cache.base import FrameStore
from tlt_cache.config import CacheConfig
from tlt_cache.embedded import embedded_redis
from tlt_cache.gate import CaptureGate
from tlt_cache.memory import MemoryStore
from tlt_cache.servicer import HiddenStateServicer
from tlt_cache.store import RedisStore
from tlt_common.domain.hidden import CapturePolicy
from tlt_common.rpc.access import Roles
from tlt_common.rpc.app import run_app
from tlt_common.rpc.server import Service, internal, serving
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import hidden as wire

log = get_logger(__name__)

MIB = 2**20

CALLERS = Roles(dict.fromkeys(wire.METHODS, ("worker",)))
"""Spot trainers are part of their workers."""


def run(config: CacheConfig) -> None:
    """Serve until the process is told to end."""
    run_app(config, lambda: serve(config))


async def serve(config: CacheConfig) -> None:
    """Serve until cancelled."""
    async with cache_service(config):
        await asyncio.Event().wait()


@asynccontextmanager
async def cache_service(config: CacheConfig) -> AsyncIterator[int]:
    """
    The service with its store, watched; the value is its port.

    Raises:
        ConfigError: The embedded Redis cannot be had.
    """
    async with opened_store(config) as store, asyncio.TaskGroup() as parts:
        gate = CaptureGate(
            CapturePolicy(
                enabled=config.capture.sample_ratio > 0,
                sample_ratio=config.capture.sample_ratio,
                frame_tokens=config.capture.frame_tokens,
            )
        )
        servicer = HiddenStateServicer(store, gate)
        service = Service(name=wire.SERVICE_NAME, add=lambda server: wire.add_servicer(servicer, server))
        async with serving(config.listen, service, door=internal(config.tls, CALLERS)) as server:
            log.info("cache_serving", port=server.port, redis=_without_password(config.redis))
            probe = parts.create_task(gate.probe(store, config.probe_every_s), name="probe")
            try:
                yield server.port
            finally:
                probe.cancel()


@asynccontextmanager
async def opened_store(config: CacheConfig) -> AsyncIterator[FrameStore]:
    """
    Open the store the configuration names. A Redis that is not there yet is no error: it is waited for.

    Raises:
        ConfigError: The embedded Redis cannot be had.
    """
    if config.redis == "memory":
        yield MemoryStore(budget_bytes=config.budget_bytes)
    elif config.redis == "embedded":
        # Twice the budget: Redis counts its own bookkeeping, and keeps buffers for what is being read.
        limit = 2 * config.budget_bytes + 64 * MIB
        redis_of_ours = embedded_redis(config.run_dir, max_bytes=limit, socket=config.redis_socket)
        async with redis_of_ours as redis, asyncio.TaskGroup() as parts:
            guard = parts.create_task(redis.run(), name="redis")
            try:
                async with _redis_store(config, redis.url) as store:
                    yield store
            finally:
                guard.cancel()
    else:
        async with _redis_store(config, config.redis) as store:
            yield store


@asynccontextmanager
async def _redis_store(config: CacheConfig, url: str) -> AsyncIterator[FrameStore]:
    store = RedisStore(url, fleet=config.fleet, budget_bytes=config.budget_bytes)
    try:
        yield store
    finally:
        await store.aclose()


def _without_password(url: str) -> str:
    """A URL of Redis as it may be written to a log."""
    parts = urlsplit(url)
    return url if parts.password is None else url.replace(f":{parts.password}@", ":***@")
