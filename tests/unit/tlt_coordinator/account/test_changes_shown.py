"""How many state changes of workers are shown."""

import pytest

from tlt_common.errors import InvalidRequestError
from tlt_coordinator.account.changes_shown import MOST, changes_per_worker
from tlt_coordinator.account.ledger import TIMELINE_CHANGES


@pytest.mark.parametrize("workers", [1, 2, 32, 512, 2048, 4096, 10_240])
def test_all_workers_together_show_a_bounded_number(workers: int) -> None:
    most = min(TIMELINE_CHANGES, MOST // workers)
    assert changes_per_worker(most, workers) == most
    if most < TIMELINE_CHANGES:
        with pytest.raises(InvalidRequestError):
            changes_per_worker(most + 1, workers)


@pytest.mark.parametrize(
    ("asked", "workers", "shown"), [(0, 512, 0), (256, 512, 256), (4096, 32, 4096), (10**9, 32, 4096)]
)
def test_a_caller_chooses_the_number(asked: int, workers: int, shown: int) -> None:
    assert changes_per_worker(asked, workers) == shown


@pytest.mark.parametrize(("asked", "workers"), [(-1, 1), (257, 512), (4096, 512), (2**62, 512)])
def test_a_number_that_is_too_large_for_the_fleet_is_refused(asked: int, workers: int) -> None:
    with pytest.raises(InvalidRequestError, match="accepted: 0 to") as refused:
        changes_per_worker(asked, workers)
    assert refused.value.field == "max_changes"
