"""
Selects the steps on which variants are simulated, to bound their time.

Their number depends on the number of events rather than a clock, so that the same options give the same output.
"""

from collections.abc import Sequence

from tlt_simulator.result import Comparison
from tlt_simulator.trace import RunTrace, TraceStep

Steps = tuple[TraceStep, ...]

BUDGET_S = 240.0
"""Budget of one core for all variants together."""
EVENT_S, PLAIN_EVENT_S = 60e-6, 21e-6
"""Roughly what an event takes, with the suite and without it."""
MIN_STEPS = 4
"""Fewer say nothing of a drafter that learns."""


def sample_size(comparison: Comparison, variants: int, *, budget_s: float = BUDGET_S) -> int:
    """Return the number of steps on which this many variants can be simulated."""
    steps = len(comparison.with_suite.steps)
    whole_s = EVENT_S * comparison.with_suite.events + PLAIN_EVENT_S * comparison.without.events
    affordable = steps if not whole_s else int(steps * budget_s / (whole_s * max(1, variants)))
    return min(steps, max(MIN_STEPS, affordable))


def sampled(trace: RunTrace, size: int) -> Steps:
    """Return equidistant steps of the run, including the first and the last."""
    steps = trace.steps
    if size >= len(steps):
        return steps
    if size == 1:
        return (steps[len(steps) // 2],)
    return tuple(steps[place * (len(steps) - 1) // (size - 1)] for place in range(size))


def said(taken: Sequence[TraceStep], trace: RunTrace) -> str:
    """Return a description of the selected steps."""
    if len(taken) == len(trace.steps):
        return f"all {len(taken)} steps"
    return f"{len(taken)} of {len(trace.steps)} steps, at equal distances"
