"""What the page says about each step. Every ratio comes from `figures`, so that no number has two definitions."""

from dataclasses import dataclass

from scipy.stats import ks_2samp

from tlt_lab.demo.figures import figures
from tlt_lab.demo.record import Response, Run, Side, Step

IN_BUBBLES = ("training", "switching", "idle")
"""States of a worker that has no request and is not being updated: what `bubble_utilisation` divides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """A step and its own figures."""

    step: Step
    is_cold: bool
    """It began before the first drafter was there."""
    step_speedup: float
    rollout_speedup: float
    tail_speedup: float
    bubble_utilisation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two samples against each other, by Kolmogorov and Smirnov."""

    distance: float
    """The largest gap between the two cumulative shares."""
    p_value: float
    """How often chance alone makes the gap this large, or larger."""

    @property
    def is_by_chance(self) -> bool:
        """Whether chance is enough of an explanation, at 1 %."""
        return self.p_value >= 0.01


def facts(run: Run) -> tuple[StepFacts, ...]:
    """Take the figures of each step by itself."""
    return tuple(_facts(run, step) for step in run.steps)


def responses(run: Run, side: Side) -> list[Response]:
    """All responses of a side."""
    return [response for step in run.steps for response in step.side(side).responses]


def compare_rewards(run: Run) -> Comparison:
    """The rewards of both sides."""
    return _compare(*([response.reward for response in responses(run, side)] for side in ("on", "off")))


def compare_lengths(run: Run) -> Comparison:
    """The response lengths of both sides."""
    return _compare(*([float(response.tokens) for response in responses(run, side)] for side in ("on", "off")))


def worker_seconds(run: Run, *, lending: bool) -> dict[str, float]:
    """By state, summed: with `lending` over `on` rollouts and learning, without over `off` rollouts."""
    seconds: dict[str, float] = {}
    for step in run.steps:
        for ledger in (step.side("on").ledger, step.learn_ledger) if lending else (step.side("off").ledger,):
            for state, spent_s in ledger.items():
                seconds[state] = seconds.get(state, 0.0) + spent_s
    return seconds


def mean_count(step: Step) -> float:
    """Numbers in a problem, on average."""
    total = sum(step.mix.values())
    return sum(count * share for count, share in step.mix.items()) / total if total else 0.0


def _facts(run: Run, step: Step) -> StepFacts:
    alone = figures(run.model_copy(update={"steps": (step,)}))
    return StepFacts(
        step=step,
        is_cold="step_speedup" not in alone,
        step_speedup=alone["step_speedup_all"].median,
        rollout_speedup=alone["rollout_speedup_all"].median,
        tail_speedup=alone["tail_speedup_all"].median,
        bubble_utilisation=alone["bubble_utilisation"].median,
    )


def _compare(on: list[float], off: list[float]) -> Comparison:
    result = ks_2samp(on, off)
    return Comparison(distance=float(result.statistic), p_value=float(result.pvalue))
