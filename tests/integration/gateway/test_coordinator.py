import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from tests.fakes.peers import Peer
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start, queued
from tlt_common.client import SamplingParams
from tlt_common.domain.fleet import Member, WorkerHello, WorkerStatus
from tlt_common.load import AnnouncedRequests
from tlt_common.wire import coordinator as wire
from tlt_common.wire.load import load_from_pb

EIGHT = SamplingParams(max_new_tokens=8)
Pair = tuple[FakeWorker, FakeWorker]


class Views(wire.Servicer):
    """A coordinator that sends scripted fleets to gateways and records their reports."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.lending = False
        self.announced: list[AnnouncedRequests] = []
        self.reports: asyncio.Queue[int] = asyncio.Queue()
        self._changed = asyncio.Event()
        self.peer = Peer(wire.SERVICE_NAME, partial(wire.add_servicer, self))

    def show(self, *members: Member) -> None:
        self.members = list(members)
        self._changed.set()

    async def WatchFleet(
        self, request: wire.pb.WatchFleetRequest, context: Any
    ) -> AsyncIterator[wire.pb.WatchFleetResponse]:
        while True:
            self._changed.clear()
            yield wire.pb.WatchFleetResponse(members=map(wire.member_to_pb, self.members), lending=self.lending)
            await self._changed.wait()

    async def ReportQueue(self, request: wire.pb.ReportQueueRequest, context: Any) -> wire.pb.ReportQueueResponse:
        assert request.gateway_id == "gateway"
        self.reports.put_nowait(request.queued_count)
        if request.HasField("load"):
            self.announced += load_from_pb(request.load).announced
        return wire.pb.ReportQueueResponse()

    async def reported(self, queued: int) -> None:
        """Wait until a report of `queued` queued requests arrives."""
        async with asyncio.timeout(10):
            while await self.reports.get() != queued:
                pass


def member(fake: FakeWorker) -> Member:
    return Member(
        hello=WorkerHello(
            worker_id=fake.worker_id, address=fake.address, model="fake", device="scripted", max_running=8
        ),
        status=WorkerStatus(),
    )


@pytest.fixture
def views() -> Views:
    return Views()  # type: ignore[abstract] # implements only what gateways call


async def test_workers_are_found_by_the_coordinator(start: Start, pair: Pair, views: Views) -> None:
    views.show(member(pair[0]))
    async with views.peer, start(coordinator=views.peer.address, workers=1) as client:
        await client.batch([[1]], 2, EIGHT)
        assert [len(fake.prompts) for fake in pair] == [2, 0]
        views.show(*map(member, pair))
        await client.wait_ready(10, workers=2)
        await client.batch([[1]], 4, EIGHT)
        assert [len(fake.prompts) for fake in pair] == [4, 2]


async def test_the_coordinator_is_told_once_how_many_requests_were_announced(
    start: Start, pair: Pair, views: Views
) -> None:
    views.show(*map(member, pair))
    async with views.peer, start(coordinator=views.peer.address, workers=2) as client, asyncio.timeout(10):
        await client.announce([[1], [2], [3]], 4, EIGHT)
        while not views.announced:
            await views.reports.get()
        for _ in range(3):
            await views.reports.get()
    assert views.announced == [AnnouncedRequests(caller=0, count=12)]


async def test_rollouts_go_on_without_the_coordinator_and_follow_it_when_it_is_back(
    start: Start, pair: Pair, views: Views
) -> None:
    async with views.peer:
        pass  # its address is known, but it is not running when the gateway starts
    views.show(member(pair[0]))
    async with start(coordinator=views.peer.address, workers=0) as client:
        async with views.peer:
            await client.wait_ready(10)
        for _ in range(3):
            assert (await client.generate([1], EIGHT)).token_ids
        views.show()  # it restarts and lists no worker yet
        async with views.peer:
            await views.reported(0)
            assert (await client.generate([1], EIGHT)).token_ids
            views.show(member(pair[1]))
            await client.wait_ready(10, workers=2)


async def test_a_worker_that_neither_is_listed_nor_answers_is_forgotten(start: Start, pair: Pair, views: Views) -> None:
    views.show(*map(member, pair))
    async with views.peer, start(coordinator=views.peer.address, workers=2) as client:
        views.show(member(pair[0]))
        await pair[1].kill()
        async with asyncio.timeout(10):
            while (await client.info()).workers != 1:
                pass
        assert (await client.generate([1], EIGHT)).stats.worker_id == "w0"  # type: ignore[union-attr]


async def test_queue_depth_is_reported_when_it_changes(
    start: Start, worker: FakeWorker, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tlt_gateway.gateway.REPORT_S", 5.0)
    worker.max_running = 1
    worker.gate.clear()
    views.show(member(worker))
    async with (
        views.peer,
        start(coordinator=views.peer.address, workers=1) as client,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(client.batch([[1]], 4, EIGHT))
        await views.reported(3)
        worker.gate.set()
        await views.reported(0)
        await queued(client, 0)
