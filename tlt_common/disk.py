"""
Disk I/O in dedicated threads.

A volume may hang, so that calls block for minutes or forever. In asyncio's default threads they would block computation
for requests, such as tokenization and large batches.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 32
_THREADS = ThreadPoolExecutor(THREADS, thread_name_prefix="disk")
_removals: dict[Path, set[Future[None]]] = {}
"""Of the entries of a directory; those that have not ended."""


async def on_disk(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """
    Run a function that reads or writes files in a disk thread; return its result. For computation, use
    `asyncio.to_thread`.
    """
    context = copy_context()
    return await asyncio.get_running_loop().run_in_executor(_THREADS, lambda: context.run(call, *args, **kwargs))


def remove_beside(parent: Path, remove: Callable[[], None]) -> None:
    """
    Remove an entry of a directory. In an event loop this happens in another thread, since deleting a large file takes a
    while and a hung volume blocks forever.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        remove()
        return
    removal = _THREADS.submit(remove)
    _removals.setdefault(parent, set()).add(removal)
    removal.add_done_callback(_removals[parent].discard)


def await_removals(parent: Path) -> None:
    """Wait until removed entries of a directory have freed their space. Blocks: call it in a thread."""
    wait(list(_removals.get(parent, ())))
