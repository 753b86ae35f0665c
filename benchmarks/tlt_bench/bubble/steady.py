"""
Steady load in virtual time: as many requests run as an asynchronous trainer keeps in flight, and none are steps.

Requests are routed as gateways do, spread or packed. A worker without a request for long enough is lent, and returned
when one comes.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from tlt_bench.bubble.devices import H100_7B, CalculatedDevice, VirtualRequest, VirtualWorker
from tlt_bench.bubble.workloads import WORKLOADS, Workload
from tlt_bench.ratios import Figures, over
from tlt_bench.result import Result
from tlt_common.domain.ids import PolicyVersion, WorkerId
from tlt_coordinator.lending.measures import UNKNOWN_SETTLE_S
from tlt_gateway.workers.routing import Candidate, RoutingTable
from tlt_simulator.traces.drawn import Drawn

FLEETS, SLOTS = (8, 32), 32
"""Workers, and requests that each may run."""
LOAD = 0.25
"""Share of the slots in use."""
SPILL_LOAD = 0.25
LOOK_S = 1.0
"""Seconds within which a worker's pace hardly changes."""
RUN_S = 900.0
WARM_S = 300.0
"""Seconds before anything counts: all requests begin at once."""
SEEDS = 3
PACKS = (10, 12, 16)
"""`gateway.pack_running`; the first is its default."""


@dataclass(frozen=True, slots=True)
class SteadyRun:
    """What a run comes to, after its beginning."""

    tokens_per_s: float
    lent_share: float


def measure(*, quick: bool = False) -> Result:
    """Play the same requests spread and packed."""
    found = Figures()
    runs = [(workload, seed) for workload in WORKLOADS for seed in range(1 if quick else SEEDS)]
    for workers in FLEETS[: 1 if quick else None]:
        fleet = "" if workers == FLEETS[0] else f"_{workers}_workers"
        spread = [play(workload, workers=workers, pack=0, seed=seed) for workload, seed in runs]
        found.add(f"spread_lent_share{fleet}", [run.lent_share for run in spread], "device-seconds lent ÷ all, spread")
        for pack in PACKS:
            packed = [play(workload, workers=workers, pack=pack, seed=seed) for workload, seed in runs]
            ending = fleet + ("" if pack == PACKS[0] else f"_pack_{pack}")
            speeds = over([run.tokens_per_s for run in packed], [run.tokens_per_s for run in spread])
            found.add(f"steady_speed{ending}", speeds, f"tokens per second, packed ÷ spread; pack_running {pack}")
            found.add(f"steady_lent_share{ending}", [run.lent_share for run in packed], "device-seconds lent ÷ all")
    found.notes["device"] = f"{H100_7B.name}, calculated; {SLOTS} slots each, at a load of {LOAD:g}"
    return Result(
        name="bubble_steady", figures=found.figures, spread=found.spread, repeats=len(runs), notes=found.notes
    )


def play(workload: Workload, *, workers: int, pack: int, seed: int, device: CalculatedDevice = H100_7B) -> SteadyRun:
    """Keep LOAD of all slots busy for RUN_S."""
    fleet = [VirtualWorker(device) for _ in range(workers)]
    free_since, lent_s = dict.fromkeys(range(workers), 0.0), 0.0
    lengths = _lengths(workload, seed)
    now_s, look_s, produced, before = 0.0, LOOK_S, 0.0, 0.0
    waiting = [VirtualRequest(next(lengths)) for _ in range(round(LOAD * workers * SLOTS))]
    chance = random.Random(seed)
    for request in waiting:  # in the middle of their lives, as they are in the middle of a run
        request.generated = chance.random() * request.drawn.length * 0.9
    while now_s < RUN_S:
        for request in waiting:
            place = _place(fleet, free_since, now_s, pack)
            free_since[place] = inf
            fleet[place].receive(request)
        waiting = []
        next_s = min([look_s, RUN_S, *(now_s + one.next_end_s for one in fleet)])
        if now_s >= WARM_S:
            lent_s += sum(max(0.0, next_s - max(now_s, since_s + UNKNOWN_SETTLE_S)) for since_s in free_since.values())
            before = sum(one.generated for worker in fleet for one in worker.requests)
        for place, worker in enumerate(fleet):
            ended = worker.advance(next_s - now_s)
            if now_s >= WARM_S:
                produced += sum(one.generated for one in ended)
            waiting += [VirtualRequest(next(lengths)) for _ in ended]
            if ended and not worker.requests:
                free_since[place] = next_s
        if now_s >= WARM_S:
            produced += sum(one.generated for worker in fleet for one in worker.requests) - before
        now_s = next_s
        if now_s >= look_s:
            look_s = now_s + LOOK_S
    measured_s = RUN_S - WARM_S
    return SteadyRun(tokens_per_s=produced / measured_s, lent_share=lent_s / (measured_s * workers))


def _place(fleet: list[VirtualWorker], free_since: dict[int, float], now_s: float, pack: int) -> int:
    table = RoutingTable(spill_load=SPILL_LOAD)
    table.pack = pack
    for place, worker in enumerate(fleet):
        table.put(
            Candidate(
                worker_id=WorkerId(str(place)),
                policy_version=PolicyVersion(0),
                max_running=SLOTS,
                slots=SLOTS,
                assigned=len(worker.requests),
                training=now_s - free_since[place] >= UNKNOWN_SETTLE_S,
            )
        )
    chosen = table.choose()
    assert chosen is not None  # noqa: S101 - a quarter of the slots is in use
    return int(chosen.worker_id)


def _lengths(workload: Workload, seed: int) -> Iterator[Drawn]:
    for number in range(1_000_000):
        for step in workload.drawn(prompts=64, group=8, of=64, steps=1, seed=1000 * seed + number):
            random.Random(number).shuffle(step)
            yield from step
