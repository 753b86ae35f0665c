"""Kills a spot trainer that does not answer: it may be stopped, or hang, while it holds memory or the device."""

from collections.abc import Callable
from contextlib import aclosing
from typing import Never

from tlt_common.schedule_clock import ScheduleClock
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)


class TrainerWatch:
    """
    A trainer that starts is not judged until it has answered once: on a busy machine its imports take minutes.

    Args:
        answers: Whether the last call to the trainer was answered.
        kill: Kills its process, which is restarted.
        limit_s: Seconds without an answer, counted while this process ran on schedule; None never kills it.
    """

    def __init__(self, *, answers: Callable[[], bool], kill: Callable[[], None], limit_s: float | None) -> None:
        self._answers = answers
        self._kill = kill
        self._limit_s = limit_s
        self._answered_at_s: float | None = None

    def restarted(self) -> None:
        """Wait for the first answer of a new process."""
        self._answered_at_s = None

    async def run(self) -> Never:
        """Run until cancelled."""
        async with aclosing(ScheduleClock().ticks()) as ticks:
            async for now_s in ticks:
                if self._answers():
                    self._answered_at_s = now_s
                elif self._answered_at_s is not None and self._limit_s is not None:
                    silent_s = now_s - self._answered_at_s
                    if silent_s >= self._limit_s:
                        log.error("trainer_hangs", silent_s=silent_s)
                        self.restarted()
                        self._kill()
        raise AssertionError("a clock does not end")
