"""What simulated workers of the page do."""

from itertools import pairwise

import pytest

from tlt_bench.page.courses import STEP_S, course
from tlt_common.domain.fleet import WorkerState


@pytest.mark.parametrize("seed", range(8))
def test_a_course_is_a_run_of_steps(seed: int) -> None:
    followed = course(seed, 10 * STEP_S)
    assert all(one < other for one, other in pairwise(followed.times_s))
    assert followed.states.count(WorkerState.UPDATING) == 10
    assert followed.states[0] is WorkerState.ROLLOUT


def test_a_history_ends_before_what_a_worker_does_when_it_joins() -> None:
    followed = course(0, 10 * STEP_S)
    history = followed.history(5 * STEP_S + 1.0)
    assert [change.state for change in history] == list(followed.states[: len(history)])
    assert history[0].age_s == 5 * STEP_S + 1.0
    assert all(one.age_s > other.age_s for one, other in pairwise(history))
