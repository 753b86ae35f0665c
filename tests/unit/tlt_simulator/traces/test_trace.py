"""Traces go to the processes that simulate them."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from tlt_simulator.trace import TraceSample, TraceStep

SAMPLES = st.builds(
    TraceSample,
    prompt=st.integers(0, 9),
    prompt_tokens=st.integers(0, 99),
    tokens=st.integers(1, 99),
    ends=st.booleans(),
    after_s=st.floats(0, 9),
)


@given(st.lists(SAMPLES, max_size=4).map(tuple), st.none() | st.floats(0, 9), st.none() | st.floats(0, 9))
def test_a_step_is_the_same_in_another_process(
    samples: tuple[TraceSample, ...], rollout_s: float | None, step_s: float | None
) -> None:
    step = TraceStep(samples=samples, rollout_s=rollout_s, step_s=step_s)
    assert pickle.loads(pickle.dumps(step)) == step  # noqa: S301 - our own
