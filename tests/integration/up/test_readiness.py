"""Readiness of a run, with a real coordinator and workers that exist only as gRPC streams."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from tests.fakes.lease_holder import IDLE, LeaseHolder
from tests.integration.coordinator.conftest import served
from tlt_common.domain.fleet import DrafterWish, WorkerState
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import ConfigError, UnavailableError
from tlt_common.rpc.channel import connect
from tlt_common.wire import coordinator as wire
from tlt_coordinator.config import CoordinatorConfig
from tlt_local.readiness import publish_drafter, until_joined, until_loaded


@pytest_asyncio.fixture
async def coordinator(tmp_path: Path) -> AsyncIterator[str]:
    async with served(CoordinatorConfig(state_dir=tmp_path / "state")) as addresses:
        yield addresses.grpc


@pytest_asyncio.fixture
async def channel(coordinator: str) -> AsyncIterator[grpc.aio.Channel]:
    async with connect(coordinator) as channel:
        yield channel


async def test_a_given_drafter_is_the_first_version_and_every_worker_is_waited_for(
    coordinator: str, channel: grpc.aio.Channel
) -> None:
    assert await publish_drafter(channel, "/drafter") == 1
    assert await publish_drafter(channel, "/drafter") == 1
    async with LeaseHolder(coordinator, "w0") as first, LeaseHolder(coordinator, "w1") as second:
        await until_joined(channel, 2)
        version = (await first.order(DrafterWish)).version
        assert (await second.order(DrafterWish)).version == version
        waiting = asyncio.ensure_future(until_loaded(channel, version))
        await first.say(replace(IDLE, drafter_version=version))
        for _ in range(50):  # calls that take real time: whoever waits has seen the fleet before the second loads
            await wire.Stub(channel).GetFleet(wire.pb.GetFleetRequest())
        assert not waiting.done()
        await second.say(replace(IDLE, drafter_version=DrafterVersion(1)))
        await waiting
        # It ended because the second has loaded, and not because the coordinator dropped both as silent.
        fleet = wire.fleet_from_pb(await wire.Stub(channel).GetFleet(wire.pb.GetFleetRequest()))
        assert [account.status.state for account in fleet.workers] == [WorkerState.IDLE] * 2


async def test_nothing_is_loaded_while_no_worker_is_there(coordinator: str, channel: grpc.aio.Channel) -> None:
    version = await publish_drafter(channel, "/drafter")
    with pytest.raises(UnavailableError, match="not all workers loaded it"):
        await until_loaded(channel, version, within_s=0.2)


async def test_a_run_that_has_a_newer_drafter_says_how_to_go_on(channel: grpc.aio.Channel) -> None:
    await publish_drafter(channel, "/trained")
    with pytest.raises(ConfigError, match="omit --drafter to continue with that one") as refusal:
        await publish_drafter(channel, "/given")
    assert refusal.value.field == "drafter"


async def test_workers_that_do_not_join_or_load_in_time_are_an_error(
    coordinator: str, channel: grpc.aio.Channel
) -> None:
    with pytest.raises(UnavailableError, match=r"not all workers joined the coordinator within 0\.2 s"):
        await until_joined(channel, 1, within_s=0.2)
    version = await publish_drafter(channel, "/drafter")
    async with LeaseHolder(coordinator, "w0"):
        await until_joined(channel, 1)
        with pytest.raises(UnavailableError, match=r"not all workers loaded it within 0\.2 s"):
            await until_loaded(channel, version, within_s=0.2)
