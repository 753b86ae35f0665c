"""What is optional fails alone."""

import asyncio
from contextlib import suppress

import pytest
import structlog
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from tlt_common.telemetry.optional import RESTART_S, kept_running, optional, unfailing


def failures(part: str) -> float:
    return REGISTRY.get_sample_value("tlt_optional_failures_total", {"part": part}) or 0.0


def test_a_failure_is_counted_and_ends_its_block_only() -> None:
    with optional("a"):
        raise ZeroDivisionError
    assert failures("a") == 1


def test_of_many_failures_few_are_logged() -> None:
    observed = unfailing("many", list[int]().index)
    with capture_logs() as logged:
        for _ in range(1000):
            observed(1)
    assert failures("many") == 1000
    assert [entry["count"] for entry in logged] == [2**power for power in range(10)]
    assert isinstance(logged[0]["exc_info"], ValueError)


def test_an_observer_that_works_gets_what_it_is_told() -> None:
    seen = list[int]()
    unfailing("works", seen.append)(3)
    assert seen == [3]
    assert failures("works") == 0


@pytest.mark.looptime
async def test_a_part_that_fails_or_ends_runs_again() -> None:
    begun = list[float]()

    async def part() -> None:
        begun.append(asyncio.get_running_loop().time())
        if len(begun) % 2:
            raise ExceptionGroup("parts", [KeyError("x")])

    with suppress(TimeoutError):
        async with asyncio.timeout(3.5 * RESTART_S):
            await kept_running("again", part)
    assert begun == [0.0, RESTART_S, 2 * RESTART_S, 3 * RESTART_S]
    assert failures("again") == 2


async def test_cancellation_and_the_end_of_the_process_pass_through() -> None:
    with pytest.raises(asyncio.CancelledError), optional("cancelled"):
        raise asyncio.CancelledError
    with pytest.raises(SystemExit), optional("exit"):
        raise SystemExit(1)
    assert structlog.is_configured() is False
    assert failures("cancelled") == failures("exit") == 0
