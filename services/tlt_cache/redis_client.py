"""Clients of a single Redis or of a Redis Cluster, and their errors."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from tlt_common.config.redis_url import CLUSTER
from tlt_common.errors import CacheUnavailableError

CONNECT_S = 2.0
ANSWER_S = 5.0

CLOSED_MEANWHILE = (AttributeError, RuntimeError)
"""What the client (redis 8.1) raises if a call finds its connection closed by another call, to a node that was lost."""

Client = Redis | RedisCluster


def is_cluster(url: str) -> bool:
    """Return whether a URL names a Redis Cluster."""
    return urlsplit(url).scheme.endswith(CLUSTER)


def connected(url: str, tls: Mapping[str, Any]) -> Client:
    """Return a client, which connects on its first command."""
    options = {"socket_connect_timeout": CONNECT_S, "socket_timeout": ANSWER_S, **tls}
    # Retries are left to callers: engines must learn quickly that frames cannot be stored.
    retry = Retry(NoBackoff(), 0)
    if is_cluster(url):
        # Slots without a node concern the shards in them, not the others.
        node = url.replace(CLUSTER, "", 1)
        return RedisCluster.from_url(node, require_full_coverage=False, retry=retry, **options)
    return Redis.from_url(url, retry=retry, **options)


@contextmanager
def reachable() -> Iterator[None]:
    """
    Convert errors of the Redis client.

    Raises:
        CacheUnavailableError: Redis did not respond, or returned an error.
        CancelledError: The task was cancelled. The client (redis 8.1) loses some cancellations while it connects, and a
            service that is shutting down would continue.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    except (RedisError, OSError, *CLOSED_MEANWHILE) as error:
        if not (task and task.cancelling() > before):
            raise CacheUnavailableError(f"Redis cannot be used: {error}") from error
    if task and task.cancelling() > before:
        raise asyncio.CancelledError
