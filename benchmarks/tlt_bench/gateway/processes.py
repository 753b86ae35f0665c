"""Servers in separate processes."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def process(target: Any, *arguments: str) -> Iterator[tuple[str, int]]:
    """Run a server in a separate process; yield its address and pid."""
    context = multiprocessing.get_context("spawn")
    mine, other = context.Pipe(duplex=False)
    process = context.Process(target=target, args=(other, *arguments), daemon=True)
    process.start()
    try:
        yield mine.recv(), process.pid or 0
    finally:
        process.terminate()
        process.join()
