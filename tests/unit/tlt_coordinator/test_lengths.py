"""Lengths that gateways report of running and finished requests."""

from tlt_common.domain.ids import WorkerId
from tlt_common.load import GatewayLoad, WorkerLoad, by_cap
from tlt_coordinator.lengths import ReportedLengths, counted


def load(*generated: int, cap: int = 1024) -> GatewayLoad:
    running = by_cap((cap, tokens) for tokens in generated)
    return GatewayLoad(workers=(WorkerLoad(worker_id=WorkerId("w"), running=running),))


def test_the_requests_of_all_gateways_are_added_up() -> None:
    lengths = ReportedLengths(stale_s=5.0)
    lengths.report("a", load(100, 100, 700), 1.0)
    lengths.report("b", load(100), 1.0)
    assert counted(lengths.loads(1.0)) == {(1024, 7): 3, (1024, 10): 1}


def test_a_gateway_that_is_gone_does_not_count() -> None:
    lengths = ReportedLengths(stale_s=5.0)
    lengths.report("a", load(100), 1.0)
    assert lengths.running(5.9)
    assert not lengths.running(6.0)
    assert lengths.loads(6.0) == []


def test_lengths_are_counted_by_power_of_two_since_the_step_began() -> None:
    lengths = ReportedLengths(stale_s=5.0)
    lengths.report("a", GatewayLoad(ended=(0, 5, 7), cut=(8,)), 0.0)
    lengths.report("b", GatewayLoad(cut=(15,)), 0.0)
    assert [(one.bits, one.count, one.cut) for one in lengths.finished] == [(0, 1, 0), (3, 2, 0), (4, 2, 2)]
    lengths.begin_step()
    assert lengths.finished == []
