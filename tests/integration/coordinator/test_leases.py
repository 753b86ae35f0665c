"""Leases and drafter wishes over real sockets, with scripted workers."""

from dataclasses import replace

import pytest

from tests.fakes.lease_holder import IDLE, LeaseHolder, hello
from tests.integration.coordinator.conftest import Start
from tlt_common.domain.fleet import DrafterWish, Lease, Revocation, WorkerHello, WorkerState, WorkerStatus
from tlt_common.errors import InvalidRequestError, TltError, UnavailableError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire
from tlt_coordinator.config import LendingPolicy


def training(lease: Lease) -> WorkerStatus:
    return replace(IDLE, state=WorkerState.TRAINING, epoch=lease.epoch)


async def publish(address: str, *, base: int, uri: str) -> int:
    async with connect(address) as channel:
        request = wire.pb.PublishDrafterRequest(base_version=base, uri=uri, worker_id="w0", held_out_top1=0.5)
        with translated():
            return (await wire.Stub(channel).PublishDrafter(request, timeout=10)).drafter_version


async def report_queue(address: str, queued: int) -> None:
    async with connect(address) as channel:
        request = wire.pb.ReportQueueRequest(gateway_id="gateway", queued_count=queued)
        await wire.Stub(channel).ReportQueue(request, timeout=10)


async def test_an_idle_worker_is_lent_kept_and_taken_back_when_requests_wait(start: Start) -> None:
    async with start(spot=LendingPolicy(settle_s=0.0, lease_ttl_s=0.6)) as at, LeaseHolder(at.grpc) as worker:
        lease = await worker.order(Lease)
        await worker.say(training(lease))
        assert await worker.order(Lease) == lease
        await report_queue(at.grpc, queued=1)
        assert await worker.order(Revocation) == Revocation(epoch=lease.epoch)
        await worker.say(IDLE)
        await report_queue(at.grpc, queued=0)
        assert (await worker.order(Lease)).epoch > lease.epoch


async def test_a_silent_worker_is_told_that_it_was_given_up(start: Start) -> None:
    async with start(silence_s=0.2) as at, LeaseHolder(at.grpc) as worker:
        with pytest.raises(UnavailableError, match="no status was received"):
            await worker.order(DrafterWish)


async def test_a_worker_that_hangs_up_leaves_in_peace(start: Start) -> None:
    async with start() as at, LeaseHolder(at.grpc) as worker:
        await worker.order(Lease)
        await worker.hang_up()
        with pytest.raises(UnavailableError, match="the stream ended"):
            await worker.order(DrafterWish)


async def test_a_restarted_coordinator_goes_on_with_its_drafter_and_higher_epochs(start: Start) -> None:
    async with start() as at, LeaseHolder(at.grpc) as worker:
        lease = await worker.order(Lease)
        await publish(at.grpc, base=0, uri="file:///first")
        wish = await worker.order(DrafterWish)
    async with start() as at, LeaseHolder(at.grpc, opening=[hello("w0"), training(lease)]) as worker:
        assert await worker.order(Revocation) == Revocation(epoch=lease.epoch)
        await worker.say(IDLE)
        assert (await worker.order(Lease)).epoch > lease.epoch
    async with start() as at, LeaseHolder(at.grpc) as worker:
        assert await worker.order(DrafterWish) == wish
        assert await publish(at.grpc, base=1, uri="file:///second") == 2


async def test_workers_of_a_coordinator_that_stops_see_their_streams_end(start: Start) -> None:
    async with start() as at:
        worker = await LeaseHolder(at.grpc).__aenter__()
        await worker.order(Lease)
    with pytest.raises(TltError):
        await worker.order(DrafterWish)
    await worker.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("opening", "field"),
    [
        ([IDLE], "hello"),
        ([hello("w0"), hello("w0")], "hello"),
        ([hello("")], "hello.worker_id"),
        ([replace(hello("w0"), address="")], "hello.address"),
    ],
)
async def test_a_stream_that_is_no_workers_is_refused_by_field(
    start: Start, opening: list[WorkerHello | WorkerStatus], field: str
) -> None:
    async with start() as at, LeaseHolder(at.grpc, opening=opening) as worker:
        with pytest.raises(InvalidRequestError) as refused:
            await worker.order(Lease)
        assert refused.value.field == field


async def test_a_workers_mistake_does_not_disturb_the_others(start: Start) -> None:
    async with start() as at, LeaseHolder(at.grpc, "good") as good:
        lease = await good.order(Lease)
        async with LeaseHolder(at.grpc, opening=[hello("bad"), hello("bad")]) as bad:
            with pytest.raises(InvalidRequestError):
                await bad.order(Lease)
        await good.say(training(lease))
        await report_queue(at.grpc, queued=1)
        assert await good.order(Revocation) == Revocation(epoch=lease.epoch)
