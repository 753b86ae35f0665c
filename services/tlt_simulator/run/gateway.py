"""The gateway in virtual time: it queues, places and moves requests, and follows what workers decode."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tlt_common.domain.ids import WorkerId
from tlt_gateway.config import GatewayConfig
from tlt_gateway.queue.fair_queue import FairQueue
from tlt_gateway.queue.placing import Placing
from tlt_simulator.run.batch import SimRequest
from tlt_simulator.run.coordinator import SimCoordinator
from tlt_simulator.run.events import Events
from tlt_simulator.run.learning import Learning
from tlt_simulator.run.outlook import SimOutlook
from tlt_simulator.run.speeds import Speeds
from tlt_simulator.run.worker import SimWorker
from tlt_simulator.scenario import Scenario
from tlt_simulator.trace import TraceSample

CALLER = "trainer"
AFFINITY_TOKENS: int = GatewayConfig.model_fields["affinity_tokens"].default
LOOKS = 40
"""Looks at what runs in a step as long as the last one: the product looks twice a second, which takes as long to
simulate as to do."""
FORECAST_EVERY = 16
"""Looks of which one learns lengths before the tail, where nothing is decided by them."""
FIRST_LOOK_S, LEAST_LOOK_S = 5.0, 0.5
"""Seconds between two looks in the first step, and at least."""


class SimGateway:
    """
    Args:
        scenario: What is simulated.
        workers: The fleet.
        coordinator: Is told of the queue.
        learning: Gives the drafter's quality, and is told of what is generated.
        events: Virtual time.
        cap: Tokens of a response at most.
        on_idle: Called when all requests of a step are over.

    Attributes:
        moved: Requests that have moved in this step.
        tail_since_s: Since when this step is in its tail; None: it is not.
    """

    def __init__(
        self,
        scenario: Scenario,
        workers: Sequence[SimWorker],
        coordinator: SimCoordinator,
        learning: Learning,
        events: Events,
        *,
        cap: int,
        on_idle: Callable[[], None],
    ) -> None:
        suite = scenario.suite
        self._costs = scenario.costs
        self._kv_room = scenario.fleet.kv_room
        self._tail_running = suite.gateway.tail_running * len(workers)
        self._workers = workers
        self._candidates = [worker.candidate for worker in workers]
        self._by_id = {worker.worker_id: worker for worker in workers}
        self._coordinator = coordinator
        self._learning = learning
        self._events = events
        self._cap = cap
        self._on_idle = on_idle
        self._speeds = Speeds(scenario.costs, suite.engine, speculates=suite.speculation, seed=scenario.seed)
        self._outlook = SimOutlook(scenario.fleet, suite.gateway, lending=suite.lending)
        self._placing = Placing(spill_load=suite.gateway.spill_load, affinity_tokens=AFFINITY_TOKENS)
        self._queue: FairQueue[SimRequest] = FairQueue()
        self._prefilled = [set[int]() for _ in workers]
        self._serials = [0] * len(workers)
        self._touched = dict[int, SimWorker]()
        self._left = 0
        self._away = 0
        self._refs = 0
        self._look_s = FIRST_LOOK_S
        self._steps = 0
        self._looked = 0
        self._quality: float | None = None
        self.moved = 0
        self.tail_since_s: float | None = None

    @property
    def accept_length(self) -> float:
        """Tokens per request and round so far."""
        rounds = sum(worker.batch.rounds for worker in self._workers)
        return sum(worker.batch.produced for worker in self._workers) / rounds if rounds else 1.0

    def begin(self, samples: Sequence[TraceSample], last_s: float | None) -> None:
        """Take the requests of a step; the last one took so long."""
        self._left, self.moved, self.tail_since_s = len(samples), 0, None
        if last_s is not None:
            self._look_s = max(LEAST_LOOK_S, last_s / LOOKS)
        for prefilled in self._prefilled:
            prefilled.clear()
        for sample in samples:
            self._refs += 1
            request = SimRequest(self._refs, sample, self._cap)
            if sample.after_s > 0.0:
                self._events.after(sample.after_s, partial(self._submit, request))
            else:
                self._submit(request)
        self._steps += 1
        if self._coordinator.lending:
            self._events.after(self._look_s, partial(self._look, self._steps))

    def drafter_loaded(self, quality: float | None, pause_s: float) -> None:
        """Decode with another drafter, or with one that is worth less, after a pause."""
        self._quality = quality
        self._outlook.drafter_changed()
        for worker in self._workers:
            if worker.batch.requests:
                self._advance(worker)
                if pause_s:
                    worker.batch.stall(pause_s, self._events.now_s)
                self._touch(worker)

    def settle(self) -> None:
        """Bring what all workers have generated up to date."""
        for worker in self._workers:
            self._advance(worker)

    @property
    def _running(self) -> Iterator[SimRequest]:
        for worker in self._workers:
            yield from worker.batch.requests.values()

    def _submit(self, request: SimRequest) -> None:
        if len(self._queue) or not self._place(request):
            self._queue.push(request, CALLER)
            self._coordinator.queued(len(self._queue))

    def _place(self, request: SimRequest, *, beside: WorkerId | None = None) -> bool:
        sample = request.sample
        chosen = self._placing.place(
            self._candidates,
            (sample.prompt,),
            prompt_tokens=sample.prompt_tokens,
            tokens=round(request.kv_tokens),
            served=self._workers[0].policy,
            now_s=self._events.now_s,
            beside=beside,
        )
        if chosen is None:
            return False
        worker = self._by_id[chosen.worker_id]
        self._advance(worker)
        prefilled = self._prefilled[worker.number]
        tokens = request.kv_tokens - (sample.prompt_tokens if sample.prompt in prefilled else 0)
        prefilled.add(sample.prompt)
        seconds = tokens * self._costs.prefill_token_s.value
        self._outlook.prefilled(tokens, seconds)
        worker.run(request, prefill_s=seconds)
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
        before_s, kv_before = batch.at_s, batch.kv_tokens
        tokens = batch.advance(self._events.now_s)
        if tokens > 0.0:
            requests = len(batch.requests)
            rounds, kv_tokens = tokens / batch.speed.length, (kv_before + batch.kv_tokens) / 2.0
            seconds = rounds * (batch.speed.base_s + batch.speed.kv_token_s * kv_tokens)
            self._outlook.worked(requests, rounds, kv_tokens, tokens * requests, min(seconds, batch.at_s - before_s))
            self._learning.generated(tokens * requests)

    def _touch(self, worker: SimWorker) -> None:
        """Look for the worker's next end once all that happens now has happened."""
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
        for request in ended:
            self._outlook.finished(request, self._events.now_s)
        retracted = worker.batch.retracted(self._kv_room)
        worker.gave_up = bool(retracted) or (worker.gave_up and not ended)
        for request in retracted:
            self._queue.push(request, CALLER, first=True)
        worker.dropped()
        self._left -= len(ended)
        self._touch(worker)
        self._pump()
        if not self._left:
            self._on_idle()

    def _see_tail(self) -> None:
        if self.tail_since_s is None and self._left <= self._tail_running and not len(self._queue):
            self.tail_since_s = self._events.now_s

    def _look(self, step: int) -> None:
        if step != self._steps or not self._left:
            return
        self.settle()
        self._outlook.learn(len(self._queue))
        self._looked += 1
        if self.tail_since_s is not None:
            running = list(self._running)
            self._outlook.look(running)
            for move in self._outlook.moves(self._workers, running, self._events.now_s, is_settled=not self._away):
                self._move(move.request.ref, move.request.worker_id, move.to)
        else:
            batches = [worker.batch for worker in self._workers]
            requests, kv_tokens = sum(map(len, batches)), sum(batch.kv_tokens for batch in batches)
            self._placing.pack = self._outlook.pack(requests, kv_tokens, len(batches))
            if self._looked % FORECAST_EVERY == 0:
                self._outlook.look(list(self._running))
        for worker in self._workers:
            if worker.batch.requests:
                self._touch(worker)
        self._events.after(self._look_s, partial(self._look, step))

    def _move(self, ref: int, origin: WorkerId, to: WorkerId) -> None:
        worker = self._by_id[origin]
        request = worker.batch.requests[ref]
        worker.batch.remove(request)
        worker.dropped()
        self._touch(worker)
        self.moved += 1
        self._away += 1
        self._events.after(self._costs.move_s.value, partial(self._arrive, request, to))

    def _arrive(self, request: SimRequest, to: WorkerId) -> None:
        self._away -= 1
        if not self._place(request, beside=to):
            self._queue.push(request, CALLER, first=True)
