"""tlt.coordinator.v1 keeps what it is given."""

import pytest

from tlt_common.domain.fleet import WorkerHello
from tlt_common.domain.ids import WorkerId
from tlt_common.wire.coordinator import report_from_pb, report_to_pb


@pytest.mark.parametrize("pod", ["", "fleet-worker-x7"])
def test_a_hello_arrives_whole(pod: str) -> None:
    hello = WorkerHello(worker_id=WorkerId("w0"), address="a:1", model="m", device="cpu", max_running=3, pod=pod)
    assert report_from_pb(report_to_pb(hello)) == hello
