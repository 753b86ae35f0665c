from hypothesis import given
from hypothesis import strategies as st

from tlt_common.processes.core_waits import CoreWaits, ThreadTimes
from tlt_worker.engine.stall import (
    COMPILE_FACTOR,
    WARM_UP_FACTOR,
    WARM_UP_ROUNDS,
    ProcessSample,
    StallJudge,
    StallSample,
)

STALL_S = 10.0
TICK_S = 0.25


class Observed:
    """An engine whose state a test changes; `after` lets time pass and returns the first verdict."""

    def __init__(self, device: str, *, rounds: int = 1000, requests: int = 4) -> None:
        self.judge = StallJudge(STALL_S, device)
        self.at_s, self.rounds, self.requests = 0.0, float(rounds), requests
        self.cpu_s = self.waiting_s = 0.0
        self.loading = self.stopped = self.compiling = self.waits_on = False

    def after(self, seconds: float, *, rounds: float = 0, cpu: float = 0, waiting: float = 0) -> str:
        """Let time pass with so many rounds, and so much CPU time and waiting, per second."""
        for _ in range(round(seconds / TICK_S)):
            self.at_s += TICK_S
            self.rounds += rounds * TICK_S
            self.cpu_s += cpu * TICK_S
            self.waiting_s += waiting * TICK_S
            if why := self.judge.hangs(self._sample()):
                return why
        return ""

    def _sample(self) -> StallSample:
        thread = ThreadTimes(ran_s=self.cpu_s, waited_s=self.waiting_s, runnable=self.waits_on)
        process = ProcessSample(stopped=self.stopped, cpu_s=self.cpu_s, waits=CoreWaits({7: thread}))
        return StallSample(
            at_s=self.at_s,
            rounds=int(self.rounds),
            requests=self.requests,
            loading=self.loading,
            compiling=self.compiling,
            processes={7: process},
        )


def test_a_gpu_engine_that_spins_for_a_kernel_that_never_ends_hangs() -> None:
    engine = Observed("cuda")
    assert not engine.after(60, rounds=20, cpu=1)
    assert not engine.after(9, cpu=1)
    assert engine.after(2, cpu=1) == "4 requests are running, and no round has ended for 10 s"


def test_a_gpu_engine_that_sleeps_for_a_kernel_hangs_too() -> None:
    assert Observed("cuda").after(11)


def test_a_gpu_engine_that_compiles_in_its_first_rounds_does_not_hang() -> None:
    engine = Observed("cuda", rounds=WARM_UP_ROUNDS - 1)
    assert not engine.after(STALL_S * WARM_UP_FACTOR - 1, cpu=1)
    assert engine.after(2, cpu=1)


def test_an_engine_that_compiles_in_the_midst_of_its_rounds_does_not_hang() -> None:
    engine = Observed("cuda")
    assert not engine.after(60, rounds=20, cpu=1)
    engine.compiling = True
    assert not engine.after(STALL_S * COMPILE_FACTOR - 1, cpu=1)
    engine.compiling = False
    assert not engine.after(STALL_S - 1, cpu=1), "the round goes on with what was compiled"
    assert engine.after(2, cpu=1)


def test_an_engine_that_compiles_without_end_hangs() -> None:
    engine = Observed("cuda")
    engine.compiling = True
    assert not engine.after(STALL_S * COMPILE_FACTOR - 1, cpu=1)
    assert engine.after(2, cpu=1)


def test_a_long_prefill_on_a_cpu_does_not_hang() -> None:
    assert not Observed("cpu").after(600, cpu=0.1)


def test_a_cpu_engine_that_sleeps_hangs() -> None:
    assert Observed("cpu").after(11)


@given(st.sampled_from(["cuda", "cpu"]), st.floats(0.51, 1.0), st.floats(0, 0.2))
def test_a_starved_engine_does_not_hang(device: str, waiting: float, cpu: float) -> None:
    assert not Observed(device).after(300, waiting=waiting, cpu=cpu)


@given(st.sampled_from(["cuda", "cpu"]))
def test_an_engine_that_gets_no_core_at_all_does_not_hang_until_it_gets_one(device: str) -> None:
    engine = Observed(device)
    assert not engine.after(1, rounds=20, cpu=0.1)
    engine.waits_on = True  # Linux adds the wait when it ends
    assert not engine.after(300)
    engine.waits_on = False
    assert engine.after(2 * STALL_S + 1)


@given(st.sampled_from(["cuda", "cpu"]), st.booleans(), st.integers(0, 3))
def test_a_stopped_engine_hangs_whatever_it_did(device: str, loading: bool, requests: int) -> None:
    engine = Observed(device, requests=requests)
    engine.loading, engine.stopped = loading, True
    assert not engine.after(9)
    assert "has been stopped" in engine.after(2)


def test_one_that_continues_in_time_does_not_hang() -> None:
    engine = Observed("cuda")
    for _ in range(10):
        engine.stopped = True
        assert not engine.after(9)
        engine.stopped = False
        assert not engine.after(1, rounds=20)


@given(st.sampled_from(["cuda", "cpu"]))
def test_an_idle_engine_and_one_that_loads_weights_have_no_rounds(device: str) -> None:
    idle = Observed(device, requests=0)
    assert not idle.after(600)
    loads = Observed(device)
    loads.loading = True
    assert not loads.after(600)
    loads.loading = False
    assert not loads.after(9)
    assert loads.after(2)


@given(st.sampled_from(["cuda", "cpu"]), st.floats(0.2, 50))
def test_an_engine_with_rounds_never_hangs(device: str, rounds: float) -> None:
    assert not Observed(device).after(120, rounds=rounds)


def test_time_in_which_the_worker_itself_was_starved_does_not_count() -> None:
    engine = Observed("cuda")
    for _ in range(1000):  # samples of a clock that stands still
        engine.at_s -= TICK_S
        assert not engine.after(TICK_S)
