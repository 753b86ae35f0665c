"""Fleet queries of gateways, trainers and operators to the coordinator, over real sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import httpx
import pytest

from tests.fakes.lease_holder import IDLE, LeaseHolder
from tests.integration.coordinator.conftest import Start
from tlt_common.domain.fleet import Fleet, Lease, Member
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import ConfigError, StaleVersionError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire

CALL_S = 10.0


@asynccontextmanager
async def calling(address: str) -> AsyncIterator[grpc.aio.Channel]:
    async with connect(address) as channel, asyncio.timeout(CALL_S):
        with translated():
            yield channel


async def fleet_at(address: str) -> Fleet:
    async with calling(address) as channel:
        return wire.fleet_from_pb(await wire.Stub(channel).GetFleet(wire.pb.GetFleetRequest(max_changes=9)))


async def pictures(channel: grpc.aio.Channel) -> AsyncIterator[list[Member]]:
    async for message in wire.Stub(channel).WatchFleet(wire.pb.WatchFleetRequest()):
        yield [wire.member_from_pb(member) for member in message.members]


async def test_a_gateway_sees_workers_come_and_go(start: Start) -> None:
    async with start(lending=False) as at, calling(at.grpc) as channel:
        seen = pictures(channel)
        assert await anext(seen) == []
        async with LeaseHolder(at.grpc):
            assert [member.status for member in await anext(seen)] == [IDLE]
        assert await anext(seen) == []


async def test_a_gateway_that_accepts_changes_gets_only_those(start: Start) -> None:
    async with start(lending=False) as at, calling(at.grpc) as channel, LeaseHolder(at.grpc, "stays"):
        seen = aiter(wire.Stub(channel).WatchFleet(wire.pb.WatchFleetRequest(accepts_changes=True)))
        told = [await anext(seen)]
        while not told[-1].members:
            told.append(await anext(seen))
        async with LeaseHolder(at.grpc, "goes"):
            joined = await anext(seen)
        left = await anext(seen)
    assert [member.hello.worker_id for member in told[-1].members] == ["stays"]
    assert joined.is_change
    assert [member.hello.worker_id for member in joined.members] == ["goes"]
    assert left.removed_worker_ids == ["goes"]


async def test_the_fleet_is_returned_with_as_much_of_timelines_as_is_asked_for(start: Start) -> None:
    async with start() as at, LeaseHolder(at.grpc) as worker, calling(at.grpc) as channel:
        await worker.order(Lease)
        for asked, kept in ((None, 0), (0, 0), (1, 1)):
            response = await wire.Stub(channel).GetFleet(wire.pb.GetFleetRequest(max_changes=asked))
            assert [len(account.timeline) for account in wire.fleet_from_pb(response).workers] == [kept]


async def test_the_status_page_says_what_the_service_says(start: Start) -> None:
    async with start() as at, LeaseHolder(at.grpc) as worker, httpx.AsyncClient(timeout=CALL_S) as client:
        await worker.order(Lease)
        shown = (await client.get(f"http://{at.http}/status")).json()
        fleet = await fleet_at(at.grpc)
        assert [entry["worker_id"] for entry in shown["workers"]] == [
            account.hello.worker_id for account in fleet.workers
        ]
        assert shown["lending"] is True
        assert [entry["timeline"] for entry in shown["workers"]] == [[]]
        figures = (await client.get(f"http://{at.http}/api/v1/fleet")).json()
        assert figures["by_state"]["training"] + figures["by_state"]["switching"] + figures["by_state"]["idle"] == 1
        assert (await client.get(f"http://{at.http}/healthz")).status_code == 200


async def test_without_an_http_address_there_is_no_page(start: Start) -> None:
    async with start(http_listen=None) as at:
        assert at.http is None


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1:many"])
async def test_an_http_address_that_is_none_stops_the_start(start: Start, listen: str) -> None:
    with pytest.raises(ExceptionGroup) as failed:
        async with start(http_listen=listen):
            pass
    assert failed.group_contains(ConfigError, match="accepted: host:port")


async def test_a_taken_http_port_stops_no_coordinator(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tlt_coordinator.main.BIND_EVERY_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        async with start(http_listen=listen) as at:
            assert at.http is None
            async with calling(at.grpc) as channel:
                await wire.Stub(channel).GetFleet(wire.pb.GetFleetRequest())
            taken.close()
            async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(retries=10)) as client:
                assert (await client.get(f"http://{listen}/healthz")).status_code == 200


async def test_trainers_that_start_from_one_base_take_turns(start: Start) -> None:
    async with start() as at:
        async with calling(at.grpc) as channel:
            for base in (0, 1):
                request = wire.pb.PublishDrafterRequest(base_version=base, uri=f"file:///{base}", worker_id="w0")
                await wire.Stub(channel).PublishDrafter(request)
        with pytest.raises(StaleVersionError) as stale:
            async with calling(at.grpc) as channel:
                await wire.Stub(channel).PublishDrafter(
                    wire.pb.PublishDrafterRequest(base_version=1, uri="file:///x", worker_id="w1")
                )
        assert stale.value.field == "base_version"
        fleet = await fleet_at(at.grpc)
        assert fleet.drafter is not None
        assert fleet.drafter.version == DrafterVersion(2)
        assert [record.version for record in fleet.drafters] == [1, 2]
