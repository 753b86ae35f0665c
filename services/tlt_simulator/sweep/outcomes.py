"""
Simulates variants over the cores of a machine.

Many variants share the side without the suite, which depends neither on the suite's keys nor on drafting and learning.
It is simulated once.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.synchronize import Event

from tlt_simulator.result import SimulatedRun
from tlt_simulator.run import simulate
from tlt_simulator.scenario import Scenario
from tlt_simulator.trace import TraceStep


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOutcome:
    """Result of one side of a simulated run."""

    seconds: float
    rollout_s: float
    bubble_utilisation: float
    accept_length: float
    drafters: int
    """Number of published drafters."""
    events: int

    @classmethod
    def of(cls, run: SimulatedRun) -> "SideOutcome":
        """Return the retained result of a run."""
        rounds = sum(step.rounds for step in run.steps)
        return cls(
            seconds=run.seconds,
            rollout_s=run.rollout_s,
            bubble_utilisation=run.bubble_utilisation,
            accept_length=sum(step.generated for step in run.steps) / rounds if rounds else 1.0,
            drafters=len(run.publications),
            events=run.events,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOutcome:
    """Results of both sides."""

    without: SideOutcome
    with_suite: SideOutcome

    @property
    def speedup(self) -> float:
        """Ratio of the run's duration without the suite to that with it."""
        return self.without.seconds / self.with_suite.seconds

    @property
    def rollout_speedup(self) -> float:
        """The same ratio for rollouts only."""
        return self.without.rollout_s / self.with_suite.rollout_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A simulation to run, identified by `name`."""

    name: str
    scenario: Scenario
    steps: tuple[TraceStep, ...] | None = None
    """None for the steps that all variants share."""


class Stopped(Exception):  # noqa: N818 - not an error: somebody asked for it
    """The simulation was stopped."""


def side_of(
    steps: Sequence[TraceStep], scenario: Scenario, *, is_stopped: Callable[[], bool] = lambda: False
) -> SideOutcome:
    """
    Simulate one side.

    Raises:
        Stopped: `is_stopped` returned True after a step.
    """

    def look(_: int) -> None:
        if is_stopped():
            raise Stopped

    return SideOutcome.of(simulate(steps, scenario, progress=look))


SUITE_COSTS = frozenset(
    {
        "draft_fixed_s", "draft_token_s", "draft_round_s", "draft_request_s", "draft_kv_token_s", "draft_step_s",
        "ngram_round_s", "ngram_request_s", "accept_start", "accept_best", "accept_decay", "accept_public",
        "ngram_accept", "ngram_alone_accept", "ngram_next_accept",
        "learn_tokens_s", "learn_half_tokens", "ageing", "lease_start_s", "lease_stop_s", "drafter_load_s",
        "together", "tree_narrowing", "state_bytes", "lasting_passes",
    }
)  # fmt: skip
"""Costs that the side without the suite does not depend on."""


def plain_key(scenario: Scenario) -> str:
    """Return a key that is equal for scenarios with equal sides without the suite, given the same steps."""
    costs = [figure.value for name, figure in scenario.costs.figures() if name not in SUITE_COSTS]
    learning = scenario.trainer
    trainer = (learning.learn_s.value, learning.learn_token_s.value, learning.colocated, learning.max_staleness)
    return repr((costs, trainer, scenario.plain.fleet.model_copy(update={"plain_kv_room": None}), scenario.seed))


def cores() -> int:
    """Return the number of simulations that can run concurrently."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class _Side:
    key: str
    scenario: Scenario
    steps: tuple[TraceStep, ...] | None


def outcomes(
    variants: Sequence[Variant], steps: Sequence[TraceStep], *, processes: int
) -> Iterator[tuple[Variant, SweepOutcome]]:
    """
    Simulate variants, and yield each as soon as both of its sides are complete.

    Args:
        variants: The variants; names are unique.
        steps: The steps of variants without their own steps.
        processes: Number of concurrent simulations. With 1, everything runs in this process, in order.
    """
    shared = tuple(steps)
    sides = {variant.name: _sides(variant) for variant in variants}
    known = dict[str, SideOutcome]()
    waiting = {variant.name: variant for variant in variants}
    needed = {side.key: side for both in sides.values() for side in both}
    for key, outcome in _simulated(tuple(needed.values()), shared, processes):
        known[key] = outcome
        for name in [name for name in waiting if all(side.key in known for side in sides[name])]:
            without, with_suite = (known[side.key] for side in sides[name])
            yield waiting.pop(name), SweepOutcome(without=without, with_suite=with_suite)


def _sides(variant: Variant) -> tuple[_Side, _Side]:
    steps = "" if variant.steps is None else id(variant.steps)
    return (
        _Side(f"without {steps} {plain_key(variant.scenario)}", variant.scenario.plain, variant.steps),
        _Side(f"with {variant.name}", variant.scenario, variant.steps),
    )


def _simulated(
    sides: Sequence[_Side], shared: tuple[TraceStep, ...], processes: int
) -> Iterator[tuple[str, SideOutcome]]:
    if processes == 1 or len(sides) == 1:
        for side in sides:
            yield side.key, side_of(shared if side.steps is None else side.steps, side.scenario)
        return
    # Not forked: threads of this process may hold locks, as those that draw a progress bar.
    context = get_context("spawn")
    stop = context.Event()
    with ProcessPoolExecutor(
        min(processes, len(sides)), mp_context=context, initializer=_begin, initargs=(shared, stop)
    ) as pool:
        try:
            yield from _in_order_of_end(pool, sides)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def _in_order_of_end(pool: ProcessPoolExecutor, sides: Sequence[_Side]) -> Iterator[tuple[str, SideOutcome]]:
    # A process that starts inherits the mask, so that Ctrl-C does not reach it before `_begin` ignores it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        running: dict[Future[SideOutcome], str] = {pool.submit(_run, side): side.key for side in sides}
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=lambda ended: running[ended]):
            yield running.pop(future), future.result()


class _Worker:
    """State of a process in the pool."""

    steps: tuple[TraceStep, ...] = ()
    stop: Event | None = None


def _begin(steps: tuple[TraceStep, ...], stop: Event) -> None:
    # Ctrl-C reaches all processes of a terminal; the parent decides, and sets the event.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _Worker.steps, _Worker.stop = steps, stop


def _run(side: _Side) -> SideOutcome:
    stop = _Worker.stop
    steps = _Worker.steps if side.steps is None else side.steps
    return side_of(steps, side.scenario, is_stopped=lambda: stop is not None and stop.is_set())
