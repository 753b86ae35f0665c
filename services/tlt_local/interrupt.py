"""Runs until Ctrl-C, SIGTERM or hang-up of the terminal, and shuts down in order."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> int | None:
    """
    Run `main` to completion, or cancel it on a signal; return that signal, or None.

    A second signal cancels the orderly shutdown, so that the remaining processes are killed immediately. Signals
    ignored at start stay ignored: `nohup tlt up &` outlives its terminal.
    """
    received: list[int] = []

    async def watched() -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None  # noqa: S101 - we are inside one

        def interrupt(number: int) -> None:
            received.append(number)
            task.cancel()

        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, interrupt, number)
        await main()

    try:
        asyncio.run(watched())
    except asyncio.CancelledError:
        if not received:
            raise
    return received[0] if received else None
