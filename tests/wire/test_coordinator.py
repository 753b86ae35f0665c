"""tlt.coordinator.v1 keeps what it is given."""

import pytest

from tlt_common.domain.bounds import COUNTED_MAX, INT32_MAX
from tlt_common.domain.fleet import (
    DrafterWish,
    Fleet,
    Lease,
    PastChange,
    ReportInterval,
    Revocation,
    WorkerHello,
    WorkerState,
    WorkerStatus,
)
from tlt_common.domain.ids import DrafterVersion, Epoch, WorkerId
from tlt_common.errors import InvalidRequestError
from tlt_common.wire.coordinator import (
    fleet_to_pb,
    order_from_pb,
    order_to_pb,
    pb,
    publication_from_pb,
    report_from_pb,
    report_to_pb,
)

HELLO = WorkerHello(
    worker_id=WorkerId("w0"),
    address="a:1",
    model="m",
    device="cpu",
    max_running=3,
    devices=4,
    training_devices=2,
    history=(
        PastChange(state=WorkerState.STARTING, age_s=2.5),
        PastChange(state=WorkerState.RESTING, age_s=1.0),
    ),
)


def test_a_worker_that_says_no_number_of_devices_has_one() -> None:
    message = report_to_pb(HELLO)
    message.hello.device_count = message.hello.training_device_count = 0
    hello = report_from_pb(message)
    assert isinstance(hello, WorkerHello)
    assert (hello.devices, hello.training_devices) == (1, 1)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("device_count", -1),
        ("device_count", 10**6),
        ("training_device_count", 5),
        ("changed_states", [pb.WORKER_STATE_UNSPECIFIED, pb.WORKER_STATE_IDLE]),
        ("changed_states", [pb.WORKER_STATE_IDLE]),
        ("changed_states", [pb.WORKER_STATE_IDLE] * 257),
        ("changed_ago_s", [1.0, 2.0]),
        ("changed_ago_s", [1.0, float("nan")]),
        ("changed_ago_s", [float("inf"), 1.0]),
        ("changed_ago_s", [1.0, -1.0]),
    ],
)
def test_devices_and_history_that_cannot_be_are_refused(field: str, values: int | list[float]) -> None:
    message = report_to_pb(HELLO)
    if isinstance(values, int):
        setattr(message.hello, field, values)
    else:
        del getattr(message.hello, field)[:]
        getattr(message.hello, field).extend(values)
    with pytest.raises(InvalidRequestError, match="hello"):
        report_from_pb(message)


STATUS = WorkerStatus(
    state=WorkerState.TRAINING, lent=True, training_s=12.5, training_age_s=0.25, trainer_resting=True, problem="no room"
)


@pytest.mark.parametrize(
    "order",
    [
        Lease(epoch=Epoch(3), ttl_s=5.0),
        Revocation(epoch=Epoch(3)),
        DrafterWish(version=DrafterVersion(2), uri="/d"),
        ReportInterval(seconds=2.5),
    ],
)
def test_an_order_arrives_whole(order: Lease | Revocation | DrafterWish | ReportInterval) -> None:
    assert order_from_pb(order_to_pb(order)) == order


@pytest.mark.parametrize("newest", [None, DrafterVersion(0), DrafterVersion(7)])
def test_a_lease_tells_no_drafter_from_one_that_is_not_known(newest: DrafterVersion | None) -> None:
    arrived = order_from_pb(order_to_pb(Lease(epoch=Epoch(3), ttl_s=5.0, newest=newest)))
    assert isinstance(arrived, Lease)
    assert arrived.newest == newest


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_an_interval_that_would_stop_or_flood_reports_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidRequestError, match=r"report_interval\.seconds is"):
        order_from_pb(pb.HoldLeaseResponse(report_interval=pb.ReportInterval(seconds=seconds)))


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["training_s", "training_age_s"])
def test_seconds_that_would_spoil_the_ledger_are_refused(name: str, value: float) -> None:
    message = report_to_pb(STATUS)
    setattr(message.status, name, value)
    with pytest.raises(InvalidRequestError, match=f"status.{name} is"):
        report_from_pb(message)


@pytest.mark.parametrize("base", [-1, 2**63 - 1, COUNTED_MAX + 1])
def test_a_version_that_cannot_be_counted_on_from_is_refused(base: int) -> None:
    message = pb.PublishDrafterRequest(base_version=base, uri="/d", worker_id="w")
    with pytest.raises(InvalidRequestError) as caught:
        publication_from_pb(message)
    assert caught.value.field == "base_version"


def test_queues_whose_sum_does_not_fit_the_message_are_shown_as_its_maximum() -> None:
    fleet = Fleet(workers=(), queued=2 * INT32_MAX, drafter=None, drafters=(), lending=True, bubble_utilisation=0.0)
    assert fleet_to_pb(fleet).queued_count == INT32_MAX
