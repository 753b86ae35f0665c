"""
Pools in Redis, the only state of the tuner that outlives its process.

One hash per fleet of tuners; each field is a pool's name and its value the pool's posterior, both as JSON. Small: a few
hundred bytes per arm and batch-size group.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter, ValidationError
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from tlt_common.domain.tuner import Posterior
from tlt_common.errors import UnavailableError
from tlt_common.telemetry.log import get_logger
from tlt_tuner.pools import PoolName

log = get_logger(__name__)

CONNECT_S = 2.0
ANSWER_S = 5.0

_POSTERIOR = TypeAdapter(Posterior)
_NAME = TypeAdapter(PoolName)


class RedisPoolStore:
    """
    A PoolStore in Redis.

    Args:
        url: redis://, rediss:// or unix://.
        fleet: Prefix of the key. Tuners of other fleets do not see these pools.
        tls: Options of the client for rediss://.
    """

    def __init__(self, url: str, *, fleet: str, tls: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._redis: Redis = Redis.from_url(
            url, socket_connect_timeout=CONNECT_S, socket_timeout=ANSWER_S, retry=Retry(NoBackoff(), 0), **tls
        )
        self._key = f"{{tlt:{fleet}}}:rewards"

    async def load(self) -> Mapping[PoolName, Posterior]:
        """
        Return all pools. Invalid ones are skipped and logged.

        Raises:
            UnavailableError: Redis is unreachable.
        """
        with _reachable():
            fields = await self._redis.hgetall(self._key)
        pools = {}
        for name, value in fields.items():
            try:
                pools[_NAME.validate_json(name)] = _POSTERIOR.validate_json(value)
            except ValidationError as error:
                log.warning("pool_unreadable", name=repr(name), error=str(error.errors()[0]["msg"]))
        return pools

    async def save(self, pools: Mapping[PoolName, Posterior]) -> None:
        """
        Save the given pools and leave the others unchanged.

        Raises:
            UnavailableError: Redis is unreachable or full.
        """
        fields: Mapping[Any, Any] = {
            json.dumps(name): _POSTERIOR.dump_json(posterior) for name, posterior in pools.items()
        }
        with _reachable():
            await self._redis.hset(self._key, mapping=fields)

    async def ping(self) -> None:
        """
        Check that pools can be saved, by deleting a key that does not exist: a demoted primary refuses that.

        Reconnects after a failure, since the name may resolve to another primary by then.

        Raises:
            UnavailableError: Redis is unreachable or a replica.
        """
        try:
            with _reachable():
                await self._redis.hdel(self._key, "")
        except UnavailableError:
            await self._redis.connection_pool.disconnect()
            raise

    async def remove(self, names: tuple[PoolName, ...]) -> None:
        """
        Delete the given pools.

        Raises:
            UnavailableError: Redis is unreachable.
        """
        with _reachable():
            await self._redis.hdel(self._key, *map(json.dumps, names))

    async def aclose(self) -> None:
        """Close connections."""
        await self._redis.aclose()


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError) as error:
        raise UnavailableError(f"the tuner's Redis cannot be used: {error}") from error
