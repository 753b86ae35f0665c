"""
Reads a log in a separate process with limited memory and time: logs are untrusted, and a few kilobytes of gzip, pickle
or JSON can expand to more than any machine holds.
"""

import multiprocessing
import resource
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tlt_common.errors import ConfigError
from tlt_common.redaction import redacted
from tlt_simulator.trace import RunTrace
from tlt_simulator.traces.reading import read_trace
from tlt_simulator.traces.values import refused

ROOM_BYTES, COPIES = 2**30, 32
"""A reader may have so much memory, and so many times the size of its log: Python's objects of a slime dump take about
ten times its bytes, and compressed tables of lengths thirty."""
CPU_S, CPU_S_PER_MIB = 120, 20
"""The same for seconds of CPU time: tokenizers count a megabyte in about a second, and logs of texts are compressed."""
TOLD_EVERY = 4096
"""Responses after which a reader tells how many it has found."""


def read_apart(path: Path, tell: Callable[[int], None] = lambda _: None, **options: Any) -> RunTrace:
    """
    Read a log as `read_trace` does.

    Args:
        path: A file or a directory.
        tell: Called occasionally with the number of responses found.
        options: Options of `read_trace`.

    Raises:
        ConfigError: As for `read_trace`, or reading takes more memory or time than allowed for the log's size.
    """
    size = _size_of(path)
    context = multiprocessing.get_context("spawn")  # threads of this process may hold locks
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_read, args=(theirs, path, options, size), name="log-reader", daemon=True)
    child.start()
    theirs.close()
    try:
        return _answer(ours, path, tell)
    finally:
        ours.close()
        child.kill()
        child.join()


def _answer(ours: Connection, path: Path, tell: Callable[[int], None]) -> RunTrace:
    while True:
        try:
            kind, value = ours.recv()
        except EOFError:
            raise refused(
                str(path), "it", "takes more memory or time to read than a log of its size may", "a complete log"
            ) from None
        if kind == "found":
            tell(value)
        elif kind == "trace":
            found: RunTrace = value
            return found
        else:
            message, field = value
            raise ConfigError(message, field=field)


def _read(theirs: Connection, path: Path, options: Mapping[str, Any], size: int) -> None:
    """Read in this process, with limits, and send the result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the parent ends this one
    mib = size // 2**20
    _limit(resource.RLIMIT_DATA, _held_bytes() + ROOM_BYTES + COPIES * size)
    _limit(resource.RLIMIT_CPU, int(time.process_time()) + CPU_S + CPU_S_PER_MIB * mib)

    def tell(found: int) -> None:
        if found % TOLD_EVERY == 0:
            theirs.send(("found", found))

    with suppress(BrokenPipeError):  # the parent gave up
        try:
            theirs.send(("trace", read_trace(path, tell=tell, **options)))
        except ConfigError as error:
            theirs.send(("refused", (redacted(error.message), error.field)))
        except MemoryError:
            theirs.close()


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))


def _held_bytes() -> int:
    """Return the memory that this process already uses, as `RLIMIT_DATA` counts it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0


def _size_of(path: Path) -> int:
    try:
        if not path.is_dir():
            return path.stat().st_size if path.exists() else 0
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    except OSError:  # the reader names it
        return 0
