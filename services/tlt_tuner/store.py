"""
What was learned, in Redis: the one state of the tuner that outlives it.

One hash per fleet of tuners; a field is a pool's name, its value what is known there, both as JSON. Small: some hundred
bytes per arm and batch size.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import TypeAdapter, ValidationError
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from tlt_common.domain.tuner import Posterior
from tlt_common.errors import UnavailableError
from tlt_common.telemetry.log import get_logger
from tlt_tuner.pool import PoolName

log = get_logger(__name__)

CONNECT_S = 2.0
ANSWER_S = 5.0

_POSTERIOR = TypeAdapter(Posterior)
_NAME = TypeAdapter(PoolName)


class RedisStore:
    """
    Pools in Redis.

    Args:
        url: redis://, rediss:// or unix://.
        fleet: Prefix of the key. Tuners of other fleets do not see these pools.
    """

    def __init__(self, url: str, *, fleet: str) -> None:
        self._redis: Redis = Redis.from_url(
            url, socket_connect_timeout=CONNECT_S, socket_timeout=ANSWER_S, retry=Retry(NoBackoff(), 0)
        )
        self._key = f"{{tlt:{fleet}}}:rewards"

    async def load(self) -> Mapping[PoolName, Posterior]:
        """
        Read all pools. What cannot be read is left out and logged.

        Raises:
            UnavailableError: Redis does not answer.
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
        Write these pools, and leave the others as they are.

        Raises:
            UnavailableError: Redis does not answer, or is full.
        """
        fields: Mapping[Any, Any] = {
            json.dumps(name): _POSTERIOR.dump_json(posterior) for name, posterior in pools.items()
        }
        with _reachable():
            await self._redis.hset(self._key, mapping=fields)

    async def remove(self, names: tuple[PoolName, ...]) -> None:
        """
        Forget these pools.

        Raises:
            UnavailableError: Redis does not answer.
        """
        with _reachable():
            await self._redis.hdel(self._key, *map(json.dumps, names))

    async def aclose(self) -> None:
        """Let go of connections."""
        await self._redis.aclose()


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError) as error:
        raise UnavailableError(f"the tuner's Redis does not answer: {error}") from error
