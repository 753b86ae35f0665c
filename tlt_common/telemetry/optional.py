"""
Runs optional parts of a service: reports, journals, metrics, pages. None of them can end the service.

Exceptions of optional code are counted and logged, and the service continues. Rollouts do not depend on it; errors that
concern a caller are raised elsewhere.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Never, ParamSpec

from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

P = ParamSpec("P")

RESTART_S = 1.0
"""Seconds until a part that has failed runs again."""

_failures: Counter[str] = Counter()


@contextmanager
def optional(part: str) -> Iterator[None]:
    """Run optional code within the block. An exception ends the block only."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the one place where what is optional fails
        _note(part, error)


def unfailing(part: str, observe: Callable[P, object]) -> Callable[P, None]:
    """Wrap an observer so that it never raises."""

    def observed(*args: P.args, **kwargs: P.kwargs) -> None:
        with optional(part):
            observe(*args, **kwargs)

    return observed


async def kept_running(part: str, run: Callable[[], Awaitable[object]]) -> Never:
    """Run an optional part until cancelled. If it ends or fails, restart it after `RESTART_S`."""
    while True:
        with optional(part):
            await run()
        await asyncio.sleep(RESTART_S)


def _note(part: str, error: Exception) -> None:
    """Count a failure. Log the 1st, 2nd, 4th, 8th and so on, since it may recur with every request."""
    metrics.OPTIONAL_FAILURES.labels(part=part).inc()
    _failures[part] += 1
    if not (count := _failures[part]) & (count - 1):
        log.error("optional_part_failed", part=part, count=count, exc_info=error)
