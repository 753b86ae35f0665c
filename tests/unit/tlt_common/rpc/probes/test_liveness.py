"""Real threads and a real event loop; how late a tick is comes from the test."""

import asyncio
import time

from hypothesis import given
from hypothesis import strategies as st

from tlt_common.rpc.probes.liveness import Liveness
from tlt_common.rpc.probes.operations import application
from tlt_common.rpc.probes.readiness import Readiness
from tlt_common.schedule_clock import TICK_S


def ticks(liveness: Liveness, count: int, *, late_s: float = 0.0) -> None:
    seen = liveness.listen(-1, late_s=0.0)
    for _ in range(count):
        seen = liveness.listen(seen, late_s=late_s)


def test_a_loop_that_does_not_run_fails_after_the_limit() -> None:
    liveness = Liveness(30.0)
    ticks(liveness, round(30 / TICK_S) - 1)
    before = liveness.failure
    ticks(liveness, round(30 / TICK_S))
    assert (before, liveness.failure) == ("", "the event loop has not run for 30 s")


@given(st.floats(TICK_S, 1000))
def test_a_process_that_is_starved_as_a_whole_does_not_fail(late_s: float) -> None:
    liveness = Liveness(30.0)
    ticks(liveness, 10_000, late_s=late_s)
    assert not liveness.failure


def test_without_a_limit_nothing_fails() -> None:
    liveness = Liveness(None)
    ticks(liveness, 10_000)
    assert not liveness.failure


async def test_a_blocked_loop_fails_while_it_is_blocked() -> None:
    liveness = Liveness(0.5)
    async with liveness.judged():
        assert not liveness.failure
        deadline_s = time.monotonic() + 60
        while not liveness.failure and time.monotonic() < deadline_s:
            time.sleep(0.05)  # noqa: ASYNC251 - this is the point
        assert liveness.failure
        while liveness.failure:  # noqa: ASYNC110 - set by a thread
            await asyncio.sleep(0.05)
    assert not liveness.failure


def test_the_probe_says_why() -> None:
    readiness = Readiness(10.0)
    statuses: list[str] = []

    def ask() -> bytes:
        environ = {"PATH_INFO": "/livez", "REQUEST_METHOD": "GET"}
        return b"".join(application(readiness)(environ, lambda status, *_: statuses.append(status)))  # type: ignore[arg-type]

    assert ask() == b"alive\n"
    ticks(readiness.liveness, round(10 / TICK_S))
    assert ask() == b"not alive: the event loop has not run for 10 s\n"
    assert statuses == ["200 OK", "503 Service Unavailable"]
