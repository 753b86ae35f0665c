"""
The side of a resident process that does the work. Imports only the standard library, so that it starts quickly.

A message on either pipe is its length in 8 bytes, followed by that many bytes; an answer starts with one more byte, its
kind.
"""

import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Never

DONE, REFUSED, OVERRUN = b"+", b"-", b"!"
CPU_S = 2.0
"""CPU time that one answer may take. A chat's prompt takes less than a thousandth of it."""
MEMORY_BYTES = 512 * 2**20
"""Memory that one answer may take."""
MAX_ANSWER_BYTES = 16 * 2**20
"""Longest answer: as long as the longest request by default."""


class RefusedError(Exception):
    """The request cannot be served; the message is for the caller."""

    def __init__(self, message: str, *, field: str = "") -> None:
        """Refuse the value of a request field."""
        super().__init__(message)
        self.message = message
        self.field = field

    def encoded(self) -> bytes:
        """Return the error encoded for `decoded`."""
        return f"{self.field}\0{self.message[:2000]}".encode(errors="replace")

    @classmethod
    def decoded(cls, content: bytes) -> "RefusedError":
        """Return an encoded error."""
        field, _, message = content.decode().partition("\0")
        return cls(message, field=field)


class _Overrun(BaseException):
    """An answer exceeded its CPU time."""


def serve(prepare: Callable[[], tuple[Callable[[bytes], bytes], bytes]]) -> None:
    """
    Answer requests until the gateway closes the pipe.

    Args:
        prepare: Returns a function that answers requests, and the first message for the gateway. Raises `RefusedError`
            if it cannot.
    """
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print would be taken for an answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; this process ends with the gateway
    signal.signal(signal.SIGPROF, _overrun)
    try:
        answer, hello = prepare()
    except RefusedError as error:
        _send(sink, REFUSED, error.encoded())
        return
    _limit_memory()
    _send(sink, DONE, hello)
    while (request := _received(source)) is not None:
        _send(sink, *_answered(answer, request))


def _answered(answer: Callable[[bytes], bytes], request: bytes) -> tuple[bytes, bytes]:
    # The first timer interrupts Python. What is one long instruction the kernel ends by the second, with the process.
    signal.setitimer(signal.ITIMER_VIRTUAL, 1.5 * CPU_S)
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    try:
        found = answer(request)
        signal.setitimer(signal.ITIMER_PROF, 0)
    except _Overrun:
        return OVERRUN, f"it takes more than {CPU_S:g} s of CPU time".encode()
    except MemoryError:
        return OVERRUN, f"it needs more than {MEMORY_BYTES >> 20} MiB of memory".encode()
    except RefusedError as error:
        return REFUSED, error.encoded()
    except Exception as error:  # noqa: BLE001 - whatever a caller's program raises is the caller's
        return REFUSED, RefusedError(f"{type(error).__name__}: {error}").encoded()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    if len(found) > MAX_ANSWER_BYTES:
        return OVERRUN, f"it has more than {MAX_ANSWER_BYTES} bytes".encode()
    return DONE, found


def _overrun(*_: object) -> Never:
    raise _Overrun


def _limit_memory() -> None:
    used = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData"))
    limit = int(used.split()[1]) * 1024 + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _received(source: BinaryIO) -> bytes | None:
    head = source.read(8)
    return source.read(int.from_bytes(head)) if len(head) == 8 else None


def _send(sink: BinaryIO, kind: bytes, content: bytes) -> None:
    sink.write((len(content) + 1).to_bytes(8) + kind + content)
    sink.flush()
