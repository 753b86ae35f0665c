"""Simulates a run in virtual time: steps of rollouts, learning and updates."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from math import inf
from multiprocessing import get_context

from tlt_common.domain.ids import PolicyVersion
from tlt_common.telemetry.log import quiet
from tlt_coordinator.config import LendingPolicy
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.result import Comparison, SimulatedRun, StateTurn, StepRun
from tlt_simulator.run.coordinator import SimCoordinator
from tlt_simulator.run.events import Events
from tlt_simulator.run.gateway import SimGateway, StepRequests
from tlt_simulator.run.learning import Learning
from tlt_simulator.run.worker import SimWorker
from tlt_simulator.scenario import Scenario
from tlt_simulator.trace import RunTrace, TraceSample, TraceStep
from tlt_trainer.data.intake import LOOK_EVERY_S


class Simulation:
    """
    Args:
        steps: The responses of each step.
        scenario: The simulated scenario.
        progress: Called with the number of finished steps.
    """

    def __init__(
        self, steps: Sequence[TraceStep], scenario: Scenario, progress: Callable[[int], None] | None = None
    ) -> None:
        siblings = any(len({one.prompt for one in step.samples}) < len(step.samples) for step in steps)
        scenario = scenario.model_copy(update={"costs": scenario.costs.of_groups(siblings=siblings)})
        self._steps = steps
        self._scenario = scenario
        self._progress = progress
        self._events = Events()
        self._learning = Learning(
            scenario.costs, scenario.suite, drafter_tokens=scenario.drafter_tokens, public=scenario.public_drafter
        )
        self._trained_until_s = 0.0
        self._training = 0
        self._scoring = 0
        self._turns = list[StateTurn]()
        fleet = scenario.fleet
        self._workers = [
            SimWorker(number, fleet, scenario.costs, self._events, self._turned) for number in range(fleet.workers)
        ]
        policy = LendingPolicy(**scenario.suite.spot.model_dump())
        self._coordinator = SimCoordinator(
            self._workers, self._learning, self._events, policy, lending=scenario.suite.lending
        )
        self._ahead = scenario.trainer.max_staleness
        self._begun = 0
        self._requests = dict[int, StepRequests]()
        self._publications = list[tuple[float, int, float]]()
        self._gateway = SimGateway(
            scenario,
            self._workers,
            self._coordinator,
            self._learning,
            self._events,
        )
        if scenario.suite.speculation and self._learning.version:
            for worker in self._workers:
                worker.drafter = self._learning.version
            self._gateway.drafter_loaded(self._learning.quality, 0.0)

    def run(self) -> SimulatedRun:
        """Simulate all steps."""
        began_s = time.perf_counter()
        done, turns = list[StepRun](), list[tuple[StateTurn, ...]]()
        for number in range(1, len(self._steps) + 1):
            done.append(self._step(number, done[-1] if done else None))
            turns.append(tuple(self._turns))
            if self._progress is not None:
                self._progress(number)
        return SimulatedRun(
            steps=tuple(done),
            turns=tuple(turns),
            publications=tuple(self._publications),
            events=self._events.processed,
            wall_s=time.perf_counter() - began_s,
        )

    def _step(self, number: int, last: StepRun | None) -> StepRun:
        """Begin the rollouts that may run, wait for those of the step, and learn from them."""
        events, costs = self._events, self._scenario.costs
        began_s = events.now_s
        self._turns = [StateTurn(began_s, worker.number, worker.activity.state) for worker in self._workers]
        before = self._coordinator.ledger.totals(began_s)
        rounds, generated = self._decoded()
        self._begin_rollouts(number, last)
        samples, requests = self._samples(number), self._requests.pop(number)
        tokens = sum(sample.tokens for sample in samples)
        self._until(lambda: not requests.left)
        ended_s, tail_since_s = events.now_s, self._gateway.tail_since_s
        self._learn(tokens)
        updated_s = events.now_s
        self._update(PolicyVersion(number))
        self._catch_up()
        for worker in self._workers:
            self._coordinator.report(worker)
        after = self._coordinator.ledger.totals(events.now_s)
        quality = self._learning.quality
        rounds_after, generated_after = self._decoded()
        learner = number - 1  # the version that learns, which the update replaces
        return StepRun(
            number=number,
            began_s=began_s,
            rollout_s=requests.ended_s - requests.began_s,
            waited_s=ended_s - began_s,
            learn_s=updated_s - ended_s,
            update_s=costs.update_s.value,
            tail_s=0.0 if self._ahead or tail_since_s is None else ended_s - tail_since_s,
            responses=len(samples),
            tokens=tokens,
            generated=generated_after - generated,
            rounds=rounds_after - rounds,
            staleness=learner - requests.versions / tokens if tokens else 0.0,
            max_staleness=0 if requests.oldest is None else learner - requests.oldest,
            drafter=self._learning.version,
            quality=quality or 0.0,
            by_state={state: after[state] - before[state] for state in after if after[state] > before[state]},
        )

    def _begin_rollouts(self, number: int, last: StepRun | None) -> None:
        """
        Begin the rollouts of this step and of as many further ones as the trainer's staleness allows.

        After the last step the log begins anew, since an asynchronous run would go on.
        """
        last_s = None if last is None else last.seconds if self._ahead else last.rollout_s
        while self._begun < number + self._ahead:
            self._begun += 1
            self._requests[self._begun] = self._gateway.begin(self._begun, self._samples(self._begun), last_s)

    def _samples(self, number: int) -> tuple[TraceSample, ...]:
        return self._steps[(number - 1) % len(self._steps)].samples

    def _decoded(self) -> tuple[float, float]:
        """Return the rounds of all requests, and their tokens, so far."""
        batches = [worker.batch for worker in self._workers]
        return sum(batch.rounds for batch in batches), sum(batch.produced for batch in batches)

    def _learn(self, tokens: int) -> None:
        """Let the RL trainer learn from this many tokens, on the workers' devices or on its own."""
        trainer = self._scenario.trainer
        if trainer.colocated:
            for worker in self._workers:
                worker.release(released=True)
        self._wait(trainer.learn_s.value + trainer.learn_token_s.value * tokens)
        if trainer.colocated:
            for worker in self._workers:
                worker.release(released=False)

    def _update(self, version: PolicyVersion) -> None:
        """
        Update the weights of all workers.

        Running requests pause for the whole update, although the suite copies weights while they run and pauses only
        to switch: how long that takes was not measured on a GPU.
        """
        for worker in self._workers:
            worker.begin_update()
        self._gateway.pause(self._scenario.costs.update_s.value)
        self._wait(self._scenario.costs.update_s.value)
        self._catch_up()
        self._learning.update(version)
        for worker in self._workers:
            worker.end_update(version)
        self._gateway.updated(version)
        self._gateway.drafter_loaded(self._learning.quality if self._workers[0].drafter else None, 0.0)

    def _wait(self, seconds: float) -> None:
        over = False

        def end() -> None:
            nonlocal over
            over = True

        self._events.after(seconds, end)
        self._until(lambda: over)

    def _until(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            if not self._events.step():
                raise AssertionError("no events are left")
            self._load()

    def _turned(self, worker: SimWorker) -> None:
        """Record a worker's change of state."""
        self._turns.append(StateTurn(self._events.now_s, worker.number, worker.activity.state))
        self._catch_up()
        before, self._training = self._training, self._coordinator.trainers
        if self._training != before:
            if self._training < before:
                self._publish(last=True)
            elif not before:
                self._learning.begin()
            self._score_later()
        self._coordinator.report(worker)

    def _catch_up(self) -> None:
        """Let the spot trainers learn up to the current time, with their previous number."""
        seconds = self._events.now_s - self._trained_until_s
        self._trained_until_s = self._events.now_s
        if self._training and seconds > 0.0:
            self._learning.train(seconds, self._training)

    def _score_later(self) -> None:
        self._scoring += 1
        if self._training and (score_s := self._learning.score_s(self._training)) < inf:
            scoring = self._scoring
            self._events.after(score_s, lambda: self._score_now(scoring))

    def _score_now(self, scoring: int) -> None:
        if scoring != self._scoring:
            return
        self._catch_up()
        self._learning.score(self._gateway.accept_length)
        self._publish(last=False)
        if self._learning.resting:
            self._rest()
        self._score_later()

    def _publish(self, *, last: bool) -> None:
        if self._learning.publish(last=last):
            quality = self._learning.quality or 0.0
            self._publications.append((self._events.now_s, self._learning.version, quality))
            self._coordinator.publish()

    def _rest(self) -> None:
        """End all leases until there is something to learn."""
        for worker in self._workers:
            worker.make_way()
        self._coordinator.report_all()
        self._events.after(LOOK_EVERY_S, self._look_around)

    def _look_around(self) -> None:
        if not self._learning.resting:
            return
        if self._learning.look_around():
            self._coordinator.report_all()
        else:
            self._events.after(LOOK_EVERY_S, self._look_around)

    def _load(self) -> None:
        """Make engines load an announced drafter."""
        if (version := self._coordinator.wish()) is None:
            return
        for worker in self._workers:
            worker.drafter = version
        self._gateway.drafter_loaded(self._learning.quality, self._scenario.costs.drafter_load_s.value)


def simulate(
    steps: Sequence[TraceStep], scenario: Scenario, *, progress: Callable[[int], None] | None = None
) -> SimulatedRun:
    """Simulate the rollouts of a run. `progress` is called with the number of finished steps."""
    with quiet(), _uncollected():  # what a coordinator logs of each lease says nothing here
        return Simulation(steps, scenario, progress).run()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Disable the garbage collector: a simulation leaves few cycles, and collection takes a tenth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def with_rollout_share(
    steps: Sequence[TraceStep], scenario: Scenario, share: float, *, low: float | None = None, high: float | None = None
) -> Scenario:
    """
    Return a scenario in which rollouts without the suite take this share of the steps on average, if these are
    synchronous.

    Args:
        steps: Steps to simulate for calibration.
        scenario: Its `trainer.learn_s` is replaced.
        share: Above 0, and at most 1.
        low: Lower end of the share's interval; None without one.
        high: Its upper end.
    """
    rollout_s = simulate(steps, scenario.plain.synchronous).rollout_s / len(steps)

    def learn_s(of_step: float) -> float:
        return max(0.0, rollout_s * (1.0 - of_step) / of_step - scenario.costs.update_s.value)

    between = "" if low is None or high is None else f" ({low:.0%} to {high:.0%})"
    found = CostFigure(
        value=learn_s(share),
        low=None if high is None else learn_s(high),
        high=None if low is None else learn_s(low),
        source=Source.ASSUMED,
        of=f"rollouts are {share:.0%} of a step without the suite{between}",
    )
    return scenario.model_copy(update={"trainer": scenario.trainer.model_copy(update={"learn_s": found})})


def compare(trace: RunTrace, scenario: Scenario, *, progress: Callable[[int], None] | None = None) -> Comparison:
    """
    Simulate a run with and without the suite, each in its own process.

    Args:
        trace: The run.
        scenario: Fleet, costs and configuration.
        progress: Called with the number of finished steps of the side with the suite.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # a thread may show the progress
        without = pool.submit(simulate, trace.steps, scenario.plain)
        with_suite = simulate(trace.steps, scenario, progress=progress)
        return Comparison(
            scenario=scenario,
            source=trace.source,
            without=without.result(),
            with_suite=with_suite,
            notes=trace.notes,
        )
