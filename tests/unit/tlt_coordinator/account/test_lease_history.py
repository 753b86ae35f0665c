from tlt_common.domain.ids import Epoch, WorkerId
from tlt_coordinator.account.lease_history import KEPT_LEASES, LeaseHistory, PastLease

W, V = WorkerId("w"), WorkerId("v")


def lease(worker_id: WorkerId, epoch: int, from_s: float, to_s: float) -> PastLease:
    return PastLease(worker_id=worker_id, epoch=Epoch(epoch), from_s=from_s, to_s=to_s)


def test_a_lease_lasts_from_its_first_report_to_the_report_of_another_or_none() -> None:
    history = LeaseHistory()
    for now_s, epoch in ((1.0, 0), (2.0, 5), (3.0, 5), (4.0, 6), (7.0, 0), (8.0, 0)):
        history.note(W, Epoch(epoch), now_s)
    history.note(V, Epoch(7), 6.0)
    assert history.between(0.0, 9.0, 9.0) == [lease(W, 5, 2.0, 4.0), lease(W, 6, 4.0, 7.0), lease(V, 7, 6.0, 9.0)]
    assert history.between(4.5, 5.5, 9.0) == [lease(W, 6, 4.0, 7.0)]
    assert history.between(0.0, 2.0, 9.0) == []


def test_only_the_latest_leases_are_kept() -> None:
    history = LeaseHistory()
    for number in range(KEPT_LEASES + 10):
        history.note(W, Epoch(number + 1), float(number))
    assert len(history.between(0.0, 1e9, 1e9)) == KEPT_LEASES + 1
