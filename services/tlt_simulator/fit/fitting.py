"""Fits a cost model, a fleet and a trainer to the journal of a run, and lists what it does not determine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tlt_common.domain.fleet import WorkerState
from tlt_common.errors import ConfigError
from tlt_common.journal.coordinator_lines import DrafterLine
from tlt_simulator.costs import learning
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.fitted_range import FittedRange
from tlt_simulator.costs.model import CostModel
from tlt_simulator.fit.acceptance import DrafterQuality, fitted_acceptance
from tlt_simulator.fit.observed import ObservedRounds, observed
from tlt_simulator.fit.recorded import RecordedRun, recorded_run
from tlt_simulator.fit.rounds import fitted_rounds
from tlt_simulator.fit.steps import RecordedStep, recorded_steps, trace_of
from tlt_simulator.fit.switches import fitted_learning_phase, fitted_switches, states_of
from tlt_simulator.scenario import RlTrainer, RolloutFleet, Scenario, SuiteKeys
from tlt_simulator.trace import RunTrace


def _assumed(value: float, low: float, high: float, of: str) -> CostFigure:
    return CostFigure(value=value, low=low, high=high, source=Source.ASSUMED, of=of)


UNKNOWN: Final = CostModel(
    device="",
    model="",
    round_fixed_s=_assumed(0.01, 0.001, 0.1, "nothing"),
    round_read_s=_assumed(0.0, 0.0, 0.0, "part of round_fixed_s"),
    round_token_s=_assumed(0.0, 0.0, 0.01, "nothing"),
    kv_token_s=_assumed(0.0, 0.0, 1e-4, "nothing"),
    draft_fixed_s=_assumed(0.001, 1e-4, 0.01, "nothing"),
    draft_token_s=_assumed(0.0, 0.0, 1e-3, "nothing"),
    prefill_token_s=_assumed(1e-4, 1e-6, 1e-2, "nothing"),
    accept_start=learning.ACCEPT_START,
    accept_best=learning.ACCEPT_BEST,
    accept_decay=learning.ACCEPT_DECAY,
    ngram_accept=learning.NGRAM_ACCEPT,
    learn_tokens_s=_assumed(2000, 200, 20_000, "spot trainers of 7B drafters on GPUs, and of tiny ones on CPUs"),
    learn_half_tokens=learning.LEARN_HALF_TOKENS,
    ageing=learning.AGEING,
    lease_start_s=learning.LEASE_START_S,
    lease_stop_s=learning.LEASE_STOP_S,
    drafter_load_s=_assumed(0.03, 0.01, 0.2, "a swap of the demo's drafter takes 26 ms"),
    update_s=_assumed(1.0, 0.1, 10.0, "nothing"),
)
"""Values of numbers that a journal does not determine, unless a calculated model is given."""


SEEN_AGAIN: Final = CostFigure(value=0, source=Source.FITTED, of="part of the learning curve")
"""`lasting_passes` of a fit: it counts tokens as often as they were trained on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A recorded run with all that a simulation needs."""

    costs: CostModel
    fleet: RolloutFleet
    trainer: RlTrainer
    steps: tuple[RecordedStep, ...]
    """Steps of both sides, if the run was a comparison."""
    arms: tuple[str, ...]
    """Arms that ran."""
    drafters: tuple[DrafterQuality, ...]
    drafter_tokens: float
    """As in `Scenario`, for the run's initial drafter."""
    round_error: float
    """Mean relative error of rounds."""
    assumed: tuple[str, ...]
    """Numbers that the journal does not determine."""

    @property
    def trace(self) -> RunTrace:
        """The responses with the suite; if there are none, those without it."""
        plain = self.side(with_suite=False)
        return trace_of(self.side(with_suite=True) or plain, "journal", plain=plain)

    def scenario(self, name: str, *, suite: SuiteKeys | None = None, seed: int = 0) -> Scenario:
        """Return the recorded run, to be simulated. Without arms in its configuration, those that ran are used."""
        suite = suite or SuiteKeys()
        if suite.engine.arms is None:
            suite = suite.model_copy(update={"engine": suite.engine.model_copy(update={"arms": self.arms})})
        return Scenario(
            name=name,
            fleet=self.fleet,
            trainer=self.trainer,
            costs=self.costs,
            suite=suite,
            drafter_tokens=self.drafter_tokens,
            seed=seed,
        )

    def side(self, *, with_suite: bool) -> tuple[RecordedStep, ...]:
        """Return the steps of one side."""
        return tuple(step for step in self.steps if step.with_suite is with_suite)

    @property
    def rows(self) -> tuple[tuple[str, CostFigure], ...]:
        """All numbers by name, including the trainer's."""
        trainer = (("learn_s", self.trainer.learn_s), ("learn_token_s", self.trainer.learn_token_s))
        return (*self.costs.figures(), *trainer)


def fit_journal(directory: Path, *, base: CostModel | None = None, seed: int = 0) -> Fitted:
    """
    Fit all numbers that the journals in a directory determine.

    Args:
        directory: Directory of `gateway.journal` and `coordinator.journal`.
        base: Costs that supply missing numbers; None for assumed ones.
        seed: Seed of the resampling for intervals.

    Raises:
        ConfigError: A journal is invalid or too short to fit a number; the message names the number and how many more
            rounds, tokens or steps are needed.
    """
    return fit_run(recorded_run(directory), base=base, seed=seed)


def fit_run(run: RecordedRun, *, base: CostModel | None = None, seed: int = 0) -> Fitted:
    """Fit all numbers that a recorded run determines, as `fit_journal`."""
    if len(devices := sorted({line.device for line in run.rounds})) > 1:
        raise ConfigError(
            f"{run.source} has rounds of {len(devices)} devices ({', '.join(devices)}); accepted: one, since a cost "
            "model is one device's",
            field="device",
        )
    rounds, steps, base = observed(run.rounds), recorded_steps(run), base or UNKNOWN
    if not rounds:
        raise ConfigError(
            f"round_fixed_s cannot be fitted: {run.source} has no rounds; needed: a minute of them",
            field="round_fixed_s",
        )
    fitted = fitted_rounds(rounds, seed=seed)
    costs = base.model_copy(update=_between_rounds(run, rounds, fitted.figures))
    acceptance = fitted_acceptance(rounds, run.drafters, costs, seed=seed)
    figures = acceptance.figures | fitted_switches(run, costs.together.value, seed=seed)
    fitted_to = _range(run, rounds, acceptance.drafters)
    costs = costs.model_copy(update={**figures, **_names(run), "lasting_passes": SEEN_AGAIN, "fitted_to": fitted_to})
    costs, drafter_tokens = began_with(run.drafters, acceptance.drafters, costs)
    learn_s, learn_token_s = fitted_learning_phase(steps, seed=seed)
    return Fitted(
        costs=costs,
        fleet=_fleet(run),
        trainer=RlTrainer(learn_s=learn_s, learn_token_s=learn_token_s, colocated=False),
        steps=steps,
        arms=tuple(dict.fromkeys(("off", *(line.arm for line in run.rounds)))),
        drafters=acceptance.drafters,
        drafter_tokens=drafter_tokens,
        round_error=fitted.error,
        assumed=tuple(name for name, figure in costs.figures() if figure.source is not Source.FITTED),
    )


def _between_rounds(
    run: RecordedRun, rounds: Sequence[ObservedRounds], figures: Mapping[str, CostFigure]
) -> dict[str, CostFigure]:
    """
    Return the figures with the time between rounds added to each round.

    Rounds are timed from launch. The scheduler's work between rounds is not recorded, but part of the time during which
    workers had requests.
    """
    told_s = run.rounds[-1].at  # those of the last minute may not have been written down yet
    busy_s = sum(
        max(0.0, min(ended, told_s) - began)
        for stays in states_of(run).values()
        for began, ended, state in stays
        if state is WorkerState.ROLLOUT
    )
    known_s = sum(one.rounds * one.round_s for one in rounds) + sum(line.seconds for line in run.prefills)
    between_s = max(0.0, busy_s - known_s) / sum(one.rounds for one in rounds)
    fixed = figures["round_fixed_s"]
    whole = CostFigure(
        value=fixed.value + between_s,
        low=fixed.least + between_s,
        high=fixed.most + between_s,
        source=Source.FITTED,
        of=f"{fixed.of}; {1e3 * between_s:.1f} ms of it pass between rounds",
    )
    return {**figures, "round_fixed_s": whole}


def _names(run: RecordedRun) -> dict[str, str]:
    device = run.engines[0].device if run.engines else run.rounds[0].device
    model = run.workers[0].model if run.workers else ""
    return {"device": device, "model": model}


def _fleet(run: RecordedRun) -> RolloutFleet:
    workers = {line.worker for line in run.engines} or {stay.worker for line in run.responses for stay in line.stays}
    slots = min((line.slots for line in run.engines), default=256)
    kv_room = min((line.kv_room for line in run.engines if line.kv_room), default=10**9)
    gpus = max((line.devices for line in run.workers), default=1)
    return RolloutFleet(workers=len(workers), gpus=gpus, slots=slots, kv_room=kv_room)


def _range(run: RecordedRun, rounds: Sequence[ObservedRounds], drafters: Sequence[DrafterQuality]) -> FittedRange:
    chances = [one.chance for one in drafters]
    return FittedRange(
        requests=max(one.batch for one in rounds),
        kv_tokens=max(one.kv_tokens for one in rounds),
        tokens=max(line.tokens for line in run.responses),
        chances=(min(chances), max(chances)) if chances else None,
        learned=max((line.tokens for line in run.drafters), default=0),
        workers=_fleet(run).workers,
    )


MOST_LEARNED = 0.98
"""Share of what can be learned that a drafter from outside the fleet has learned at most: all takes forever."""


def began_with(
    drafters: Sequence[DrafterLine], qualities: Sequence[DrafterQuality], costs: CostModel
) -> tuple[CostModel, float]:
    """
    Return the training tokens of a run's initial drafter, estimated from its acceptance; 0 if there was none.

    A drafter that no trainer of the fleet has published existed before the run. If it is better than `accept_best`, the
    costs are returned with its quality as the new best.

    Args:
        drafters: Published drafters.
        qualities: Acceptance of the drafters.
        costs: Costs with the learning curve.
    """
    outside = {line.version for line in drafters if not line.tokens}
    seen = [one for one in qualities if one.version in outside]
    if not seen:
        return costs, 0.0
    chance = sum(one.chance * one.requests for one in seen) / sum(one.requests for one in seen)
    if chance > costs.accept_best.value:
        best = CostFigure(value=chance, source=Source.FITTED, of="the drafter that the run began with")
        costs = costs.model_copy(update={"accept_best": best})
    start, best_chance = costs.accept_start.value, costs.accept_best.value
    share = (chance - start) / (best_chance - start) if best_chance > start else MOST_LEARNED
    share = min(MOST_LEARNED, max(0.0, share))
    return costs, costs.learn_half_tokens.value * share / (1.0 - share)
