"""What simulated workers of the page do, and how its figures are summed up."""

from itertools import pairwise

import pytest

from tlt_bench.page.courses import STEP_S, course
from tlt_bench.page.measure import MeasuredPage, result_of
from tlt_common.domain.fleet import WorkerState


def measured(ready_ms: float) -> MeasuredPage:
    frames = [1.0] * 95 + [9.0] * 5
    return MeasuredPage(
        first_paint_ms=100, ready_ms=ready_ms, zoom_frame_ms=frames, live_frame_ms=[2.0], mb=0.2, live_kb_per_s=3
    )


def test_figures_are_medians_with_their_spread() -> None:
    result = result_of({8: [measured(300), measured(500), measured(400)]})
    assert result.figures["ready_ms_8"] == 400
    assert result.spread["ready_ms_8"] == (300, 500)
    assert result.figures["zoom_frame_ms_p95_8"] == 9.0


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
