"""What services send each other is refused by its field when no service would send it."""

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest

from tlt_common.domain.fleet import WorkerStatus
from tlt_common.errors import InvalidRequestError
from tlt_common.wire import coordinator, tuner, worker

HELLO: dict[str, Any] = {"worker_id": "w", "address": "host:1", "max_running": 8}
STATUS: dict[str, Any] = {"state": coordinator.pb.WORKER_STATE_IDLE}
DRAFTER: dict[str, Any] = {"uri": "file:///drafters/1", "held_out_top1": 0.5, "base_top1": 0.4}
QUEUE: dict[str, Any] = {"gateway_id": "g"}


def hello(**fields: Any) -> object:
    return coordinator.report_from_pb(
        coordinator.pb.HoldLeaseRequest(hello=coordinator.pb.WorkerHello(**{**HELLO, **fields}))
    )


def status(**fields: Any) -> object:
    return coordinator.report_from_pb(
        coordinator.pb.HoldLeaseRequest(status=coordinator.pb.WorkerStatus(**{**STATUS, **fields}))
    )


def publication(**fields: Any) -> object:
    return coordinator.publication_from_pb(coordinator.pb.PublishDrafterRequest(**{**DRAFTER, **fields}))


def queue(**fields: Any) -> object:
    return coordinator.queue_from_pb(coordinator.pb.ReportQueueRequest(**{**QUEUE, **fields}))


def pool(**fields: Any) -> object:
    return tuner.key_from_pb(tuner.pb.PoolKey(**fields))


def demand(**fields: Any) -> object:
    return worker.demand_from_pb(worker.pb.WatchRequest(**fields))


@pytest.mark.parametrize("decode", [hello, status, publication, queue, pool, demand])
def test_what_services_send_is_accepted(decode: Callable[..., object]) -> None:
    assert decode() is not None


@pytest.mark.parametrize(
    ("decode", "field", "values"),
    [
        (hello, "hello.worker_id", ["", "w" * 257, "w\n"]),
        (hello, "hello.address", ["", "h" * 257]),
        (hello, "hello.max_running", [-1]),
        (status, "status.running_count", [-1]),
        (status, "status.epoch", [-1]),
        (status, "status.policy_version", [-1]),
        (status, "status.accept_length", [nan, inf, -1.0]),
        (status, "status.arm", ["a" * 257]),
        (publication, "uri", ["", "u" * 4097, "file:///a\nb"]),
        (publication, "held_out_top1", [nan, -0.1, 1.1]),
        (publication, "base_top1", [nan, inf]),
        (publication, "base_version", [-1]),
        (queue, "gateway_id", ["", "g" * 257]),
        (queue, "queued_count", [-1]),
        (pool, "key.fleet", ["f" * 257, "\x00"]),
        (pool, "key.drafter_version", [-1]),
        (demand, "gateway_id", ["g" * 257]),
    ],
)
def test_each_field_is_refused_by_its_name(decode: Callable[..., object], field: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidRequestError, match="accepted: ") as raised:
            decode(**{field.rpartition(".")[2]: value})
        assert raised.value.field == field


@pytest.mark.parametrize("loss", [nan, inf])
def test_training_that_diverged_does_not_cost_the_worker_its_stream(loss: float) -> None:
    report = status(training_loss=loss)
    assert isinstance(report, WorkerStatus)
    assert report.training_loss == 0.0
