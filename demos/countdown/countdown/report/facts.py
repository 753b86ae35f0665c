"""Per-step facts for the page. Every ratio comes from `figures`, so that each number has a single definition."""

from dataclasses import dataclass

from scipy.stats import ks_2samp

from countdown.figures import figures, had_drafter
from countdown.record import Response, Run, Side, Step

IN_BUBBLES = ("training", "switching", "updating", "starting", "resting", "idle")
"""States of a worker that generates nothing: the denominator of `bubble_utilisation`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """A step and its figures. Ratios are None if the step ran on one side only."""

    step: Step
    is_cold: bool
    """Whether the step began before the first drafter was available."""
    step_speedup: float | None
    rollout_speedup: float | None
    tail_speedup: float | None
    bubble_utilisation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two-sample Kolmogorov-Smirnov test."""

    distance: float
    """Largest gap between the two cumulative distributions."""
    p_value: float
    """Probability of a gap at least this large by chance alone."""

    @property
    def is_by_chance(self) -> bool:
        """Whether chance explains the gap at the 1 % level."""
        return self.p_value >= 0.01


def facts(run: Run) -> tuple[StepFacts, ...]:
    """Compute the figures of each step separately."""
    return tuple(_facts(run, step) for step in run.steps)


def responses(run: Run, side: Side) -> list[Response]:
    """Return a side's responses in the steps that ran on both sides."""
    return [response for step in run.compared for response in step.side(side).responses]


def compare_rewards(run: Run) -> Comparison:
    """Compare the rewards of both sides."""
    return _compare(*([response.reward for response in responses(run, side)] for side in ("on", "off")))


def compare_lengths(run: Run) -> Comparison:
    """Compare the response lengths of both sides."""
    return _compare(*([float(response.tokens) for response in responses(run, side)] for side in ("on", "off")))


def worker_seconds(run: Run, *, lending: bool) -> dict[str, float]:
    """Sum worker-seconds by state: over `on` rollouts and learning with `lending`, else over `off` rollouts."""
    seconds: dict[str, float] = {}
    for step in run.steps if lending else run.compared:
        for ledger in (step.side("on").ledger, step.learn_ledger) if lending else (step.side("off").ledger,):
            for state, spent_s in ledger.items():
                seconds[state] = seconds.get(state, 0.0) + spent_s
    return seconds


def mean_count(step: Step) -> float:
    """Return the mean number of numbers per problem."""
    total = sum(step.mix.values())
    return sum(count * share for count, share in step.mix.items()) / total if total else 0.0


def _facts(run: Run, step: Step) -> StepFacts:
    alone = {name: figure.value for name, figure in figures(run.model_copy(update={"steps": (step,)})).items()}
    return StepFacts(
        step=step,
        is_cold=not had_drafter(run, step),
        step_speedup=alone.get("step_speedup"),
        rollout_speedup=alone.get("rollout_speedup"),
        tail_speedup=alone.get("tail_speedup"),
        bubble_utilisation=alone["bubble_utilisation"],
    )


def _compare(on: list[float], off: list[float]) -> Comparison:
    result = ks_2samp(on, off)
    return Comparison(distance=float(result.statistic), p_value=float(result.pvalue))
