"""Which signals end `tlt up`."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from tlt_local.interrupt import SIGNALS, run


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}  # nohup ignores SIGHUP
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_cancels_the_run_and_is_returned(number: signal.Signals) -> None:
    async def main() -> None:
        os.kill(os.getpid(), number)
        await asyncio.Event().wait()

    assert run(main) == number


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_was_ignored_at_the_start_stays_ignored(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)

    async def main() -> None:
        os.kill(os.getpid(), number)
        await asyncio.sleep(0)

    assert run(main) is None
