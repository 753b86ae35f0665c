"""
Evaluates a fit's predictions on held-out steps.

A model is fitted to the first half of a recorded comparison's steps. All steps are then simulated on both sides,
without knowledge of their durations; drafters learn and are published as in the product from the first step on. The
steps of the second half are evaluated.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tlt_common.errors import ConfigError
from tlt_simulator.costs.model import CostModel
from tlt_simulator.fit.fitting import Fitted, fit_run
from tlt_simulator.fit.recorded import RecordedRun, recorded_run
from tlt_simulator.fit.steps import RecordedStep, recorded_steps, trace_of
from tlt_simulator.run import simulate
from tlt_simulator.scenario import Scenario, SuiteKeys

LEAST_COMPARED: Final = 2
"""Steps on both sides, half of which are fitted to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutStep:
    """A held-out step; of the last one, which may have no update after it, the rollout."""

    number: int
    with_suite: bool
    measured_s: float
    predicted_s: float

    @property
    def error(self) -> float:
        """Relative error, without sign."""
        return abs(self.predicted_s - self.measured_s) / self.measured_s


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Predictions compared to measurements."""

    fitted: Fitted
    """The fit to the first half."""
    steps: tuple[HeldOutStep, ...]
    """Steps of the second half."""

    @property
    def step_time_error(self) -> float:
        """Mean relative error of step durations, over both sides."""
        return sum(step.error for step in self.steps) / len(self.steps)

    @property
    def measured_ratio(self) -> float:
        """Ratio of the durations without and with the suite, over steps that ran on both sides."""
        return self._seconds("measured_s", with_suite=False) / self._seconds("measured_s", with_suite=True)

    @property
    def predicted_ratio(self) -> float:
        """Predicted value of the same ratio."""
        return self._seconds("predicted_s", with_suite=False) / self._seconds("predicted_s", with_suite=True)

    @property
    def ratio_error(self) -> float:
        """Relative error of the ratio."""
        return abs(self.predicted_ratio / self.measured_ratio - 1.0)

    def _seconds(self, name: str, *, with_suite: bool) -> float:
        numbers = {step.number for step in self.steps if step.with_suite is not with_suite}
        seconds: float = sum(
            getattr(step, name) for step in self.steps if step.with_suite is with_suite and step.number in numbers
        )
        return seconds


def held_out(
    directory: Path, *, suite: SuiteKeys | None = None, base: CostModel | None = None, seed: int = 0
) -> HeldOut:
    """
    Fit the first half of a recorded comparison, and predict the second.

    Args:
        directory: Directory of the journals.
        suite: The configuration of the recorded run; None for the defaults. Arms are taken from the journal.
        base: Costs that supply numbers missing from the fit.
        seed: Seed of the fit and of the simulation.

    Raises:
        ConfigError: A journal is invalid or too short; the message states how much more is needed.
    """
    run = recorded_run(directory)
    steps = recorded_steps(run)
    both = sorted(
        {step.number for step in steps if step.with_suite} & {step.number for step in steps if not step.with_suite}
    )
    if len(both) < LEAST_COMPARED:
        raise ConfigError(
            f"{directory} has {len(both)} steps with and without the suite; needed: {LEAST_COMPARED - len(both)} "
            "more; accepted: a comparison as `tlt demo` records it",
            field="held_out",
        )
    last = both[(len(both) - 1) // 2]
    fitted_to = {step.number for step in steps if step.number <= last}
    fitted = fit_run(run.until(_over_s(run, steps, fitted_to)), base=base, seed=seed)
    scenario = fitted.scenario("held-out", suite=_with_arms(suite or SuiteKeys(), run), seed=seed)
    return HeldOut(fitted=fitted, steps=tuple(_predicted(steps, scenario, fitted_to)))


def _predicted(steps: Sequence[RecordedStep], scenario: Scenario, fitted_to: set[int]) -> Iterator[HeldOutStep]:
    for with_suite in (True, False):
        ones = [step for step in steps if step.with_suite is with_suite]
        found = simulate(trace_of(ones, "held-out").steps, scenario if with_suite else scenario.plain)
        for step, predicted in zip(ones, found.steps, strict=True):
            if step.number not in fitted_to:
                whole_s = step.step_s
                yield HeldOutStep(
                    number=step.number,
                    with_suite=with_suite,
                    measured_s=step.rollout_s if whole_s is None else whole_s,
                    predicted_s=predicted.rollout_s if whole_s is None else predicted.seconds,
                )


def _over_s(run: RecordedRun, steps: Sequence[RecordedStep], numbers: set[int]) -> float:
    """Return the end time of the last of these steps, including its update."""
    ended_s = max(step.ended_at_s for step in steps if step.number in numbers)
    return min(update.at for update in run.updates if update.at >= ended_s)


def _with_arms(suite: SuiteKeys, run: RecordedRun) -> SuiteKeys:
    if suite.engine.arms is not None:
        return suite
    arms = tuple(dict.fromkeys(("off", *(line.arm for line in run.rounds))))
    return suite.model_copy(update={"engine": suite.engine.model_copy(update={"arms": arms})})
