from tlt_common.domain.fleet import HISTORY_CHANGES, StateChange, WorkerState
from tlt_worker.lending.state_history import StateHistory


def test_it_keeps_changes_only_and_the_latest() -> None:
    history = StateHistory()
    for second in range(4 * HISTORY_CHANGES):
        history.note((WorkerState.ROLLOUT, WorkerState.IDLE)[second // 2 % 2], float(second))
    assert len(history.changes) == HISTORY_CHANGES
    assert history.changes[-1] == StateChange(state=WorkerState.IDLE, at_unix_s=4.0 * HISTORY_CHANGES - 2)


def test_a_clock_that_is_set_back_stands_still() -> None:
    history = StateHistory()
    history.note(WorkerState.IDLE, 100.0)
    history.note(WorkerState.ROLLOUT, 50.0)
    assert [change.at_unix_s for change in history.changes] == [100.0, 100.0]
