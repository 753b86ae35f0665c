"""
Work on disks, in threads of its own.

A volume may hang: calls then wait for minutes, or for ever. In asyncio's own threads they would keep out what computes
for requests, such as tokenizers and large batches.
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
    """Return what a function that reads or writes files returns; `asyncio.to_thread` is for what only computes."""
    context = copy_context()
    return await asyncio.get_running_loop().run_in_executor(_THREADS, lambda: context.run(call, *args, **kwargs))


def remove_beside(parent: Path, remove: Callable[[], None]) -> None:
    """
    Remove an entry of a directory: at once, or, if this thread runs an event loop, in another one, since a large file
    takes a while to delete, and a hung volume for ever.
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
    """Wait until what was removed from a directory so far no longer takes room. Blocks: call it in a thread."""
    wait(list(_removals.get(parent, ())))
