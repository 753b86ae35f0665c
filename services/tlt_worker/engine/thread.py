"""
An event loop on its own thread, for SGLang's tokenizer side.

SGLang replaces signal handlers when its loop runs on the main thread, and blocks the loop it starts on while the model
loads. A separate thread protects the worker from both.
"""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import zmq

T = TypeVar("T")


class LoopThread:
    """Runs one blocking call and then coroutines, always on the same thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def block(self, call: Callable[[], T]) -> T:
        """Run a call that may block for long on the thread."""

        async def run() -> T:
            return call()

        return await self.run(run())

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the thread's loop. Cancelling the caller cancels it there."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def post(self, call: Callable[[], object]) -> None:
        """Schedule a short call on the thread's loop."""
        self._loop.call_soon_threadsafe(call)

    def close(self) -> None:
        """Stop the loop and let its thread close it; work still running on it is abandoned."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()


def close_sockets() -> None:
    """
    Close every socket of this process, unsent messages included.

    SGLang leaves its sockets to the garbage collector, which may collect their context first. A context waits forever
    for its sockets: a worker whose engine has died would hang at exit.
    """
    for found in gc.get_objects():
        # By type, since isinstance would ask objects that warn when they are touched for their __class__.
        if issubclass(type(found), zmq.Socket) and not found.closed:
            found.close(linger=0)
