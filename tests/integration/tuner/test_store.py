"""The tuner over a real Redis: restarts, and an unreachable Redis."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from tlt_bench.campaign.storage.redis import RedisControl
from tlt_cache.config import REDIS_SOCKET
from tlt_cache.embedded import EmbeddedRedis, embedded_redis
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.tuner import PoolKey, Posterior
from tlt_common.errors import UnavailableError
from tlt_common.rpc.channel import connect
from tlt_common.wire import tuner as wire
from tlt_tuner.config import TunerConfig
from tlt_tuner.main import serve
from tlt_tuner.pools import PoolName
from tlt_tuner.redis_pool_store import RedisPoolStore

MIB = 2**20
WAIT_S = 20.0
LOOK_S = 0.02
KEY = PoolKey(fleet="f", model="tiny", device="cpu", drafter_version=DrafterVersion(3))
NAME = PoolName("f", "tiny", "cpu")
WINDOW = ArmWindow(
    arm="chain-3",
    group=4,
    rounds=5,
    accepted_tokens=5,
    produced_tokens=10,
    elapsed_s=0.1,
    median_reward=100.0,
    drafted_tokens=60,
)
LEARNED = Posterior(drafter_version=DrafterVersion(3), arms=(WINDOW,))


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tuners of this process save and send every few milliseconds."""
    monkeypatch.setattr("tlt_tuner.main.SAVE_INTERVAL_S", 0.02)
    monkeypatch.setattr("tlt_tuner.tuner.PUSH_INTERVAL_S", 0.01)


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[EmbeddedRedis]:
    async with embedded_redis(tmp_path, max_bytes=64 * MIB) as redis:
        yield redis


@asynccontextmanager
async def tuner(url: str, *, fleet: str = "default") -> AsyncIterator[grpc.aio.Channel]:
    """Run a tuner; yield a channel to it."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    config = TunerConfig(redis=url, fleet=fleet)
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(serve(config, on_serving=address.set_result))
        async with connect(await address) as channel:
            yield channel
        serving.cancel()


async def report(channel: grpc.aio.Channel) -> None:
    request = wire.pb.ReportWindowRequest(worker_id="w", key=wire.key_to_pb(KEY), arms=[wire.window_to_pb(WINDOW)])
    await wire.Stub(channel).ReportWindow(request, timeout=WAIT_S)


async def test_a_primary_that_was_demoted_is_unavailable_until_there_is_one_again(redis: EmbeddedRedis) -> None:
    control, store = RedisControl(socket=Path(redis.url.removeprefix("unix://"))), RedisPoolStore(redis.url, fleet="f")
    await store.ping()
    await control.command("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(UnavailableError, match="read only replica"):
        await store.ping()
    await control.command("REPLICAOF", "NO", "ONE")
    await store.ping()
    await store.save({NAME: LEARNED})
    assert await store.load() == {NAME: LEARNED}
    await store.aclose()


async def first_posterior(channel: grpc.aio.Channel) -> Posterior:
    call = wire.Stub(channel).WatchPosterior(wire.pb.WatchPosteriorRequest(key=wire.key_to_pb(KEY)))
    async with asyncio.timeout(WAIT_S):
        async for message in call:
            call.cancel()
            return wire.posterior_from_pb(message)
    raise AssertionError("the stream never ends")


async def kept(url: str, fleet: str = "default") -> dict[PoolName, Posterior]:
    store = RedisPoolStore(url, fleet=fleet)
    try:
        return dict(await store.load())
    finally:
        await store.aclose()


async def test_a_restarted_tuner_knows_what_it_knew(redis: EmbeddedRedis) -> None:
    async with tuner(redis.url) as channel:
        await report(channel)
    async with tuner(redis.url) as channel:
        assert await first_posterior(channel) == LEARNED


async def test_tuners_of_two_fleets_do_not_see_each_others_pools(redis: EmbeddedRedis) -> None:
    async with tuner(redis.url, fleet="one") as channel:
        await report(channel)
    assert await kept(redis.url, "one") == {NAME: LEARNED}
    assert await kept(redis.url, "two") == {}


async def test_engines_are_served_while_redis_is_away_and_it_is_written_when_it_is_back(redis: EmbeddedRedis) -> None:
    async with asyncio.timeout(2 * WAIT_S), tuner(redis.url) as channel:
        os.kill(redis.pid, signal.SIGKILL)
        await report(channel)
        assert await first_posterior(channel) == LEARNED
        await redis.stop()
        await redis.start()  # empty: everything is saved again
        while await kept(redis.url) != {NAME: LEARNED}:  # noqa: ASYNC110 - Redis sends no notification
            await asyncio.sleep(LOOK_S)


async def test_a_tuner_starts_without_redis(tmp_path: Path) -> None:
    async with tuner(f"unix://{tmp_path}/nothing.sock") as channel:
        await report(channel)
        assert await first_posterior(channel) == LEARNED


async def test_what_somebody_else_wrote_is_left_out(redis: EmbeddedRedis) -> None:
    store = RedisPoolStore(redis.url, fleet="default")
    try:
        await store.save({NAME: LEARNED})
        await store._redis.hset(store._key, mapping={"rubbish": "1", '["f", "other", "cpu"]': "{}"})
        assert await store.load() == {NAME: LEARNED}
        await store.remove((NAME,))
        assert await store.load() == {}
    finally:
        await store.aclose()


async def test_an_unreachable_store_says_so(tmp_path: Path) -> None:
    store = RedisPoolStore(f"unix://{tmp_path}/nothing.sock", fleet="default")
    with pytest.raises(UnavailableError, match="Redis"):
        await store.load()


async def test_the_caches_redis_is_reached_by_the_socket_in_its_directory(tmp_path: Path) -> None:
    socket = tmp_path / REDIS_SOCKET
    async with embedded_redis(tmp_path, max_bytes=64 * MIB) as redis:
        assert redis.url == f"unix://{socket}"
        async with tuner(redis.url) as channel:
            await report(channel)
        assert await kept(redis.url) == {NAME: LEARNED}
    assert not socket.exists()
