"""Cost of choosing a worker for a request, by fleet size. Fleets take turns in one process."""

import time
from collections import deque

from tlt_bench.ratios import Figures, over
from tlt_common.domain.ids import PolicyVersion, WorkerId
from tlt_gateway.queue.placing import Placing
from tlt_gateway.workers.routing import AFFINITY_TOKENS, SPILL_LOAD, Candidate

FLEETS = (8, 512, 10_240)
SLOTS = 64
LOAD = 0.25
"""Share of the slots in use."""
REQUESTS = 4000
"""Requests started, and ended, in each fleet and repeat."""
SAMPLES = 8
"""Samples of each prompt, which go to workers that have it cached."""
PROMPT_TOKENS = 512
REPEATS = 7
POLICY = PolicyVersion(0)


class LoadedFleet:
    """Workers that run requests, and the gateway's placement of further ones."""

    def __init__(self, workers: int) -> None:
        self._placing = Placing(spill_load=SPILL_LOAD, affinity_tokens=AFFINITY_TOKENS)
        self._running = deque[WorkerId]()
        self._assigned = {WorkerId(f"worker-{number}"): 0 for number in range(workers)}
        self._requests = 0
        for worker_id in self._assigned:
            self._see(worker_id)
        for _ in range(round(LOAD * SLOTS * workers)):
            self._begin()

    def seconds(self) -> float:
        """Return the seconds per request for placing one and ending another."""
        began_s = time.perf_counter()
        for _ in range(REQUESTS):
            self._begin()
            ended = self._running.popleft()
            self._assigned[ended] -= 1
            self._see(ended)
        return (time.perf_counter() - began_s) / REQUESTS

    def _begin(self) -> None:
        prompt, self._requests = self._requests // SAMPLES, self._requests + 1
        chosen = self._placing.place(
            (prompt,), prompt_tokens=PROMPT_TOKENS, tokens=PROMPT_TOKENS, served=POLICY, now_s=0.0
        )
        assert chosen is not None  # noqa: S101 - a quarter of the slots is in use
        self._assigned[chosen.worker_id] += 1
        self._running.append(chosen.worker_id)
        self._see(chosen.worker_id)

    def _see(self, worker_id: WorkerId) -> None:
        self._placing.table.put(
            Candidate(
                worker_id=worker_id,
                policy_version=POLICY,
                max_running=SLOTS,
                slots=SLOTS,
                assigned=self._assigned[worker_id],
            )
        )


def measure() -> Figures:
    """Measure each fleet in turn."""
    fleets = {workers: LoadedFleet(workers) for workers in FLEETS}
    taken_s: dict[int, list[float]] = {workers: [] for workers in FLEETS}
    for _ in range(REPEATS):
        for workers, fleet in fleets.items():
            taken_s[workers].append(fleet.seconds())
    found, least = Figures(), FLEETS[0]
    for workers in FLEETS:
        found.add(f"choose_us_{workers}", [1e6 * seconds for seconds in taken_s[workers]])
        if workers != least:
            found.add(f"choose_{workers}_over_{least}", over(taken_s[workers], taken_s[least]))
    found.notes["choose_us"] = (
        f"microseconds to place a request and to end another, by the number of workers; {SLOTS} slots each, {LOAD:g} "
        f"of them in use, {SAMPLES} samples of each prompt"
    )
    return found
