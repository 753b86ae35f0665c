"""A step of an RL run on calculated workers, under a rule that moves requests in its tail."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tlt_bench.consolidate.devices import CalculatedDevice, VirtualRequest, VirtualWorker
from tlt_bench.consolidate.fixed import to_empty
from tlt_common.domain.ids import PolicyVersion, WorkerId
from tlt_common.forecast import CostCurve, Forecaster, Running, TailRequest, TailView, TailWorker
from tlt_gateway.consolidation.plan import moves
from tlt_gateway.workers.routing import Candidate
from tlt_simulator.traces.drawn import Drawn

LOOK_S = 0.5
"""Seconds between two looks at a tail."""
MOVE_S = 0.3
"""Seconds for which a request that moves is with no worker, besides its prefill."""
LEARN_EVERY = 8
"""Looks before the tail of which one is learned from."""
TAIL_RUNNING = 4
FIXED_AFTER_S = 2.0
"""Seconds that the fixed rule leaves a worker's requests where they are."""


class Rule(Protocol):
    """Decides what moves."""

    def learn(self, workers: Sequence[VirtualWorker], cap: int) -> None:
        """Learn from what runs, twice a second."""
        ...

    def finished(self, request: VirtualRequest, cap: int) -> None:
        """Learn from a response."""
        ...

    def moves(self, workers: Sequence[VirtualWorker], cap: int) -> list[tuple[VirtualRequest, str]]:
        """Return requests and the workers that they move to."""
        ...


class Stay:
    """Nothing moves."""

    def learn(self, workers: Sequence[VirtualWorker], cap: int) -> None:
        """Learn nothing."""

    def finished(self, request: VirtualRequest, cap: int) -> None:
        """Learn nothing."""

    def moves(self, workers: Sequence[VirtualWorker], cap: int) -> list[tuple[VirtualRequest, str]]:
        """Move nothing."""
        del workers, cap
        return []


class Fixed(Stay):
    """At most TAIL_RUNNING requests per worker, whatever is left of them."""

    def moves(self, workers: Sequence[VirtualWorker], cap: int) -> list[tuple[VirtualRequest, str]]:
        """Empty the workers that others have room for."""
        del cap
        candidates = [
            Candidate(
                worker_id=WorkerId(one.name),
                policy_version=PolicyVersion(0),
                max_running=256,
                slots=256,
                assigned=len(one.requests),
                lendable=True,
            )
            for one in workers
        ]
        leaving = set(to_empty(candidates, at_most=TAIL_RUNNING))
        counts = {one.name: len(one.requests) for one in workers if one.requests and one.name not in leaving}
        found = list[tuple[VirtualRequest, str]]()
        for worker in workers:
            for request in worker.requests if worker.name in leaving else ():
                to = max((name for name in counts if counts[name] < TAIL_RUNNING), key=lambda name: counts[name])
                counts[to] += 1
                found.append((request, to))
        return found


@dataclass(slots=True)
class ByCurve:
    """The gateway's rule, with everything learned from what it sees."""

    slack: float = 0.0
    forecaster: Forecaster = field(default_factory=Forecaster)
    curve: CostCurve = field(default_factory=CostCurve)
    serial: int = 0
    looks: int = 0

    def finished(self, request: VirtualRequest, cap: int) -> None:
        """Learn from a response."""
        self.forecaster.finished(_running(request, cap), ended=request.drawn.ends)

    def learn(self, workers: Sequence[VirtualWorker], cap: int) -> None:
        """Learn from rounds and lengths."""
        for worker in workers:
            self.curve.learn(worker.rounds())
        self.looks += 1
        running = [_running(request, cap) for worker in workers for request in worker.requests]
        if self.looks % LEARN_EVERY == 0 or len(running) <= TAIL_RUNNING * len(workers):
            self.forecaster.look(running)

    def moves(self, workers: Sequence[VirtualWorker], cap: int) -> list[tuple[VirtualRequest, str]]:
        """Empty workers where that does not move the end of the step."""
        pace = self.curve.pace(TAIL_RUNNING)
        if pace is None or not self.forecaster.ready:
            return []
        self.serial += 1
        requests = {one.ref: (one, worker) for worker in workers for one in worker.requests}
        lefts = self.forecaster.left([_running(one, cap) for one, _ in requests.values()])
        view = TailView(
            serial=self.serial,
            workers=tuple(
                TailWorker(
                    worker_id=WorkerId(one.name), pace=pace, slots=256, kv_room=one.device.kv_room, lendable=True
                )
                for one in workers
            ),
            requests=tuple(
                TailRequest(
                    gateway_id="one",
                    ref=ref,
                    worker_id=WorkerId(worker.name),
                    kv_tokens=round(one.kv_tokens),
                    left=left,
                )
                for (ref, (one, worker)), left in zip(requests.items(), lefts, strict=True)
            ),
        )
        planned = moves(view, at_most=TAIL_RUNNING, slack=self.slack)
        return [(requests[one.request.ref][0], one.to) for one in planned.moves]


@dataclass(frozen=True, slots=True)
class PlayedStep:
    """A step."""

    seconds: float
    idle_s: float
    """CalculatedDevice-seconds without a request."""
    moved: int
    moved_left: tuple[float, ...] = ()
    """Tokens that the moved requests had left."""


def play(drawn: Sequence[Drawn], rule: Rule, device: CalculatedDevice, *, workers: int, cap: int) -> PlayedStep:
    """Generate the responses of a step, spread over workers; requests move as the rule says."""
    fleet = [VirtualWorker(f"w{number}", device) for number in range(workers)]
    for ref, one in enumerate(drawn):
        fleet[ref % workers].receive(VirtualRequest(ref, one))
    now_s, look_s, since_s, away = 0.0, LOOK_S, dict[int, float](), list[tuple[float, VirtualRequest, VirtualWorker]]()
    moved = list[float]()
    while away or any(one.requests for one in fleet):
        next_s = min([look_s, *(now_s + one.next_end_s for one in fleet), *(at_s for at_s, *_ in away)])
        for worker in fleet:
            for request in worker.advance(next_s - now_s):
                rule.finished(request, cap)
        now_s = next_s
        for arrival in [arrival for arrival in away if arrival[0] <= now_s]:
            away.remove(arrival)
            arrival[2].receive(arrival[1])
        if now_s >= look_s:
            look_s = now_s + LOOK_S
            rule.learn(fleet, cap)
            if not away and sum(len(one.requests) for one in fleet) <= TAIL_RUNNING * workers:
                for request, to in rule.moves(fleet, cap):
                    if now_s - since_s.get(request.ref, -FIXED_AFTER_S) < FIXED_AFTER_S:
                        continue
                    origin = next(one for one in fleet if request in one.requests)
                    origin.requests.remove(request)
                    since_s[request.ref] = now_s
                    moved.append(request.left)
                    away.append((now_s + MOVE_S, request, next(one for one in fleet if one.name == to)))
    return PlayedStep(now_s, now_s * workers - sum(one.busy_s for one in fleet), len(moved), tuple(moved))


def _running(request: VirtualRequest, cap: int) -> Running:
    return Running(prompt=request.drawn.prompt, generated=round(request.generated), cap=cap)
