"""Silence is measured in time in which the coordinator listened."""

import pytest

from tlt_common.domain.fleet import WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import WorkerId
from tlt_coordinator.account.ledger import Ledger
from tlt_coordinator.lending.worklist import STEP_WORKERS
from tlt_coordinator.registry import Registry, WorkerSession

SILENCE_S = 5.0
TICK_S = 0.1
START_S = 1_800_000_000.0


class Bench:
    def __init__(self, workers: int = 1) -> None:
        self.registry, self.now_s = Registry(Ledger(), START_S), START_S
        self.sessions = [self._join(f"w{number}") for number in range(workers)]

    def _join(self, name: str) -> WorkerSession:
        hello = WorkerHello(worker_id=WorkerId(name), address="host:1", model="m", device="cpu", max_running=8)
        return self.registry.join(hello, self.now_s)

    def run(self, seconds: float, *, reports: bool = False) -> int:
        """Check every tick for so long; return the number of workers that were dropped."""
        dropped = 0
        for _ in range(round(seconds / TICK_S)):
            self.now_s += TICK_S
            if reports:
                self.report()
            dropped += self.registry.drop_silent(SILENCE_S, self.now_s)
        return dropped

    def report(self) -> None:
        for session in self.sessions:
            self.registry.report(session, WorkerStatus(state=WorkerState.IDLE), self.now_s)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_worker_is_dropped_after_the_silence_it_is_allowed(bench: Bench) -> None:
    assert bench.run(60, reports=True) == 0
    assert bench.run(SILENCE_S - TICK_S) == 0
    assert bench.run(2 * TICK_S) == 1
    assert bench.registry.last_known(WorkerId("w0")).status.state is WorkerState.DOWN


def test_a_coordinator_that_was_stopped_drops_nobody_whose_reports_it_has_not_read() -> None:
    bench = Bench(workers=20)
    bench.run(1, reports=True)
    bench.now_s += 1000.0
    assert bench.registry.drop_silent(SILENCE_S, bench.now_s) == 0
    bench.report()
    assert bench.run(60, reports=True) == 0


def test_many_silent_workers_are_dropped_in_parts() -> None:
    bench = Bench(workers=STEP_WORKERS + 1)
    bench.run(SILENCE_S - TICK_S)
    bench.now_s += 2 * TICK_S
    assert [bench.registry.drop_silent(SILENCE_S, bench.now_s) for _ in range(3)] == [STEP_WORKERS, 1, 0]
