"""Engines that learn from each other, over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from tlt_common.bandit import Bandit, BanditConfig
from tlt_common.domain.arm import DEFAULT_ARMS, Arm, ArmWindow, chain
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.tuner import PoolKey, Posterior
from tlt_common.errors import InvalidRequestError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import tuner as wire
from tlt_tuner.config import TunerConfig
from tlt_tuner.main import serve

KEY = PoolKey(model="tiny", device="cpu", drafter_version=DrafterVersion(1))
FAST = chain(7)


@pytest.fixture
async def channel(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[grpc.aio.Channel]:
    monkeypatch.setattr("tlt_tuner.tuner.PUSH_INTERVAL_S", 0.01)
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(serve(TunerConfig(), on_serving=address.set_result))
        async with connect(await address) as channel:
            yield channel
        serving.cancel()


async def report(channel: grpc.aio.Channel, windows: tuple[ArmWindow, ...], key: PoolKey = KEY) -> None:
    request = wire.pb.ReportWindowRequest(
        worker_id="w0", key=wire.key_to_pb(key), arms=[wire.window_to_pb(window) for window in windows]
    )
    with translated():
        await wire.Stub(channel).ReportWindow(request, timeout=10)


@asynccontextmanager
async def watching(channel: grpc.aio.Channel, key: PoolKey = KEY) -> AsyncIterator[AsyncIterator[Posterior]]:
    call = wire.Stub(channel).WatchPosterior(wire.pb.WatchPosteriorRequest(key=wire.key_to_pb(key)))
    async with asyncio.timeout(10):
        yield (wire.posterior_from_pb(message) async for message in call)
    call.cancel()


def experienced(fastest: Arm) -> Bandit:
    bandit = Bandit(DEFAULT_ARMS, BanditConfig(epsilon=0.0), seed=1)
    for _ in range(20):
        arm = bandit.choose(batch=4)
        bandit.record(arm, 4, [arm.steps] * 4, elapsed_s=(arm.steps + 1) / (100.0 if arm == fastest else 50.0))
    return bandit


async def test_a_new_engine_starts_with_what_another_one_learned(channel: grpc.aio.Channel) -> None:
    await report(channel, experienced(fastest=FAST).windows())
    newcomer = Bandit(DEFAULT_ARMS, BanditConfig(epsilon=0.0), seed=2)
    async with watching(channel) as posteriors:
        newcomer.merge(await anext(posteriors))
    assert newcomer.choose(batch=5) == FAST


async def test_a_senseless_window_is_refused_by_field(channel: grpc.aio.Channel) -> None:
    (window, *_) = experienced(FAST).windows()
    with pytest.raises(InvalidRequestError) as refused:
        await report(channel, (window,), PoolKey(model="", device="cpu", drafter_version=DrafterVersion(1)))
    assert refused.value.field == "key.model"
