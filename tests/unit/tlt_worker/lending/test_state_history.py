from tlt_common.domain.fleet import HISTORY_CHANGES, PastChange, WorkerState
from tlt_worker.lending.state_history import StateHistory


def test_it_keeps_changes_only_and_the_latest() -> None:
    history, last_s = StateHistory(), 4.0 * HISTORY_CHANGES - 2
    for second in range(4 * HISTORY_CHANGES):
        history.note((WorkerState.ROLLOUT, WorkerState.IDLE)[second // 2 % 2], float(second))
    changes = history.changes(last_s + 5)
    assert len(changes) == HISTORY_CHANGES
    assert changes[-2:] == (
        PastChange(state=WorkerState.ROLLOUT, age_s=7.0),
        PastChange(state=WorkerState.IDLE, age_s=5.0),
    )
