"""What signals do to a service."""

import asyncio
import os
import signal

import pytest

from tlt_common.config.base import ServiceConfig
from tlt_common.rpc.app import run_app


class Life:
    """A service, and its leave, that send signals to their own process and note what becomes of them."""

    def __init__(self, *, signals: int, leave_ends: bool) -> None:
        self.events: list[str] = []
        self._signals = signals
        self._leave_ends = leave_ends

    async def main(self) -> None:
        self.events.append("begin")
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            self.events.append("end")

    async def leave(self) -> None:
        self.events.append("leave")
        for _ in range(self._signals - 1):
            os.kill(os.getpid(), signal.SIGTERM)
        try:
            if not self._leave_ends:
                await asyncio.Event().wait()
        finally:
            self.events.append("left")


def test_without_a_leave_a_signal_ends_the_service() -> None:
    life = Life(signals=1, leave_ends=True)
    run_app(ServiceConfig(), life.main)
    assert life.events == ["begin", "end"]


def test_a_signal_begins_the_leave_and_its_end_ends_the_service() -> None:
    life = Life(signals=1, leave_ends=True)
    run_app(ServiceConfig(), life.main, leave=life.leave)
    assert life.events == ["begin", "leave", "left", "end"]


def test_a_second_signal_waits_for_no_leave() -> None:
    life = Life(signals=2, leave_ends=False)
    run_app(ServiceConfig(), life.main, leave=life.leave)
    assert life.events == ["begin", "leave", "end", "left"]


def test_a_leave_that_fails_ends_the_service_and_is_heard_of() -> None:
    async def leave() -> None:
        raise ValueError("no leave")

    life = Life(signals=1, leave_ends=True)
    with pytest.raises(ValueError, match="no leave"):
        run_app(ServiceConfig(), life.main, leave=leave)
    assert life.events == ["begin", "end"]
