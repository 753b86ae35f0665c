"""The simulated gateway: queues and places requests and follows their decoding in virtual time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tlt_gateway.queue.fair_queue import FairQueue
from tlt_gateway.queue.placing import Placing
from tlt_gateway.workers.routing import AFFINITY_TOKENS, SPILL_LOAD
from tlt_simulator.result import TAIL_RUNNING
from tlt_simulator.run.batch import SimRequest
from tlt_simulator.run.coordinator import SimCoordinator
from tlt_simulator.run.events import Events
from tlt_simulator.run.learning import Learning
from tlt_simulator.run.speeds import Speeds
from tlt_simulator.run.worker import SimWorker
from tlt_simulator.scenario import Scenario
from tlt_simulator.trace import TraceSample

CALLER = "trainer"
LOOKS = 40
"""Looks at what runs in a step as long as the last one, for training and the bandit: the product looks twice a second,
which takes as long to simulate as to do."""
FIRST_LOOK_S, LEAST_LOOK_S = 5.0, 0.5
"""Seconds between two looks in the first step, and at least."""


@dataclass(eq=False, slots=True)
class StepRequests:
    """The requests of a step."""

    began_s: float
    left: int
    """Requests that have not ended."""
    ended_s: float
    """Time of the last end so far."""
    oldest: int | None = None
    """Lowest version of the weights that wrote a token of a request that has ended."""
    versions: float = 0.0
    """Versions of all tokens, summed."""


class SimGateway:
    """
    Args:
        scenario: The simulated scenario.
        workers: The fleet.
        coordinator: Receives the length of the queue.
        learning: Provides the drafter's quality and receives generated tokens.
        events: Virtual time.

    Attributes:
        tail_since_s: Start of this step's tail; None before it.
    """

    def __init__(
        self,
        scenario: Scenario,
        workers: Sequence[SimWorker],
        coordinator: SimCoordinator,
        learning: Learning,
        events: Events,
    ) -> None:
        suite = scenario.suite
        self._costs = scenario.costs
        self._kv_room = scenario.fleet.kv_room
        self._workers = workers
        self._by_id = {worker.worker_id: worker for worker in workers}
        self._coordinator = coordinator
        self._learning = learning
        self._events = events
        self._speeds = Speeds(scenario)
        self._placing = Placing(spill_load=SPILL_LOAD, affinity_tokens=AFFINITY_TOKENS)
        self._placing.table.pack = suite.gateway.pack_running if suite.lending else 0
        for worker in workers:
            worker.seen = self._placing.table.put
            worker.changed()
        self._queue: FairQueue[SimRequest] = FairQueue()
        self._prefilled = [set[int]() for _ in workers]
        self._serials = [0] * len(workers)
        self._touched = dict[int, SimWorker]()
        self._by_step = dict[int, StepRequests]()
        self._left = 0
        self._refs = 0
        self._version = 0
        self._look_s = FIRST_LOOK_S
        self._steps = 0
        self._quality: float | None = None
        self.tail_since_s: float | None = None

    @property
    def accept_length(self) -> float:
        """Tokens per request and round so far."""
        rounds = sum(worker.batch.rounds for worker in self._workers)
        return sum(worker.batch.produced for worker in self._workers) / rounds if rounds else 1.0

    def begin(self, step: int, samples: Sequence[TraceSample], last_s: float | None) -> StepRequests:
        """
        Start the requests of a step.

        Args:
            step: Its number.
            samples: Its responses.
            last_s: Duration of the previous one; None for the first.
        """
        self._left, self.tail_since_s = self._left + len(samples), None
        if last_s is not None:
            self._look_s = max(LEAST_LOOK_S, last_s / LOOKS)
        now_s = self._events.now_s
        found = StepRequests(began_s=now_s, left=len(samples), ended_s=now_s)
        self._by_step[step] = found
        for sample in samples:
            self._refs += 1
            request = SimRequest(self._refs, sample, step)
            if sample.after_s > 0.0:
                self._events.after(sample.after_s, partial(self._submit, request))
            else:
                self._submit(request)
        self._steps += 1
        if self._coordinator.lending:
            self._events.after(self._look_s, partial(self._look, self._steps))
        return found

    def pause(self, seconds: float) -> None:
        """Pause generation on all workers."""
        for worker in self._workers:
            if worker.batch.requests:
                self._advance(worker)
                worker.batch.stall(seconds, self._events.now_s)
                self._touch(worker)

    def updated(self, version: int) -> None:
        """Continue with new weights: what is cached is stale, and running requests are prefilled again."""
        for worker in self._workers:
            self._prefilled[worker.number].clear()
            batch = worker.batch
            if batch.requests:
                self._advance(worker)
                for request in batch.requests.values():
                    request.attribute(self._version)
                batch.stall(batch.kv_tokens * self._costs.prefill_token_s.value, self._events.now_s)
                self._touch(worker)
        self._version = version

    def drafter_loaded(self, quality: float | None, pause_s: float) -> None:
        """Continue with another drafter, or with an aged one, after a pause."""
        self._quality = quality
        for worker in self._workers:
            if worker.batch.requests:
                self._advance(worker)
                if pause_s:
                    worker.batch.stall(pause_s, self._events.now_s)
                self._touch(worker)

    def _submit(self, request: SimRequest) -> None:
        if len(self._queue) or not self._place(request):
            self._queue.push(request, CALLER)
            self._coordinator.queued(len(self._queue))

    def _place(self, request: SimRequest) -> bool:
        sample = request.sample
        chosen = self._placing.place(
            (sample.prompt,),
            prompt_tokens=sample.prompt_tokens,
            tokens=round(request.kv_tokens),
            served=self._workers[0].policy,
            now_s=self._events.now_s,
        )
        if chosen is None:
            return False
        if request.oldest is None:
            request.oldest = self._version
        worker = self._by_id[chosen.worker_id]
        self._advance(worker)
        prefilled = self._prefilled[worker.number]
        tokens = request.kv_tokens - (sample.prompt_tokens if sample.prompt in prefilled else 0)
        prefilled.add(sample.prompt)
        worker.run(request, prefill_s=tokens * self._costs.prefill_token_s.value)
        self._touch(worker)
        return True

    def _pump(self) -> None:
        before = len(self._queue)
        while len(self._queue) and self._place(self._queue.head()):
            self._queue.pop()
        if len(self._queue) != before:
            self._coordinator.queued(len(self._queue))

    def _advance(self, worker: SimWorker) -> None:
        batch = worker.batch
        if batch.at_s == self._events.now_s:
            return
        tokens = batch.advance(self._events.now_s)
        if tokens > 0.0:
            self._learning.generated(tokens * len(batch.requests))

    def _touch(self, worker: SimWorker) -> None:
        """Look for the worker's next end after all events of the current time have been processed."""
        if not self._touched:
            self._events.after(0.0, self._follow)
        self._touched[worker.number] = worker

    def _follow(self) -> None:
        touched, self._touched = self._touched, {}
        for number, worker in touched.items():
            self._advance(worker)
            batch = worker.batch
            self._serials[number] += 1
            if not batch.requests:
                continue
            batch.set_speed(self._speeds.of(len(batch), self._quality))
            serial = self._serials[number]
            self._events.at(batch.next_event_s(self._kv_room), partial(self._ends, worker, serial))
        self._see_tail()

    def _ends(self, worker: SimWorker, serial: int) -> None:
        if serial != self._serials[worker.number]:
            return
        self._advance(worker)
        ended = worker.batch.ended()
        retracted = worker.batch.retracted(self._kv_room)
        worker.gave_up = bool(retracted) or (worker.gave_up and not ended)
        for request in retracted:
            request.attribute(self._version)
            self._queue.push(request, CALLER, first=True)
        worker.dropped()
        for request in ended:
            self._count(request)
        self._touch(worker)
        self._pump()

    def _count(self, request: SimRequest) -> None:
        """Count a request that has ended."""
        request.attribute(self._version)
        step = self._by_step[request.step]
        self._left -= 1
        step.left -= 1
        step.ended_s = self._events.now_s
        step.versions += request.versions
        oldest = self._version if request.oldest is None else request.oldest
        step.oldest = oldest if step.oldest is None else min(step.oldest, oldest)
        if not step.left:
            del self._by_step[request.step]

    def _see_tail(self) -> None:
        if self.tail_since_s is None and self._left <= TAIL_RUNNING * len(self._workers) and not len(self._queue):
            self.tail_since_s = self._events.now_s

    def _look(self, step: int) -> None:
        if step != self._steps or not self._left:
            return
        for worker in self._workers:
            self._advance(worker)
            if worker.batch.requests:
                self._touch(worker)
        self._events.after(self._look_s, partial(self._look, step))
