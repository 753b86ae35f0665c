"""The gateway's side of a resident process: starts it, sends requests, and replaces it."""

import asyncio
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import IO

from tlt_common.processes.parent_death import killed_with_parent
from tlt_common.rpc.security.access import caller_name
from tlt_common.telemetry.log import get_logger
from tlt_gateway.http.resident.child import DONE, MAX_ANSWER_BYTES, REFUSED, RefusedError
from tlt_gateway.http.resident.fair_turns import FairTurns

ANSWER_S = 60.0
"""Seconds until a process that does not answer is killed. CPU time is limited by the process itself; this is for one
that gets none."""
START_S = 300.0
"""Seconds until a process that does not start is killed; libraries may have to be read from a slow disk."""
_PIECE = 2**20

log = get_logger(__name__)


class OverrunError(Exception):
    """An answer exceeded its CPU time, memory or length; the message names the limit."""


class Resident:
    """
    A process that answers requests one at a time. It starts on first use and again after it was killed.

    Args:
        module: The module that the process runs.
        arguments: Its arguments.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        self._command = killed_with_parent([sys.executable, "-m", module, *arguments])
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._turns = FairTurns()
        # One thread, which waits for the process without Python's lock. The kernel kills the process when its parent's
        # thread ends, so the same one starts it.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=module.rpartition(".")[2])

    async def ask(self, request: Callable[[], bytes]) -> bytes:
        """
        Send a request in the caller's turn and return the answer. The request is encoded in a thread.

        Raises:
            RefusedError: The process refused it.
            OverrunError: It exceeded its time or memory.
        """
        async with self._turns.turn(caller_name.get()):
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, request)

    def start(self) -> bytes:
        """
        Start the process, wait until it is ready, and return its first message.

        Raises:
            RefusedError: It exited.
        """
        return self._thread.submit(self._started).result()

    def close(self) -> None:
        """End the process. Idempotent."""
        if not self._closed:
            self._closed = True
            if (process := self._process) is not None:
                process.kill()  # what it is asked now is not waited for
            self._thread.submit(self._kill).result()
            self._thread.shutdown()

    def _answer(self, request: Callable[[], bytes]) -> bytes:
        content = request()
        if self._process is None or self._process.poll() is not None:
            self._started()
        return self._exchanged(content, ANSWER_S)

    def _started(self) -> bytes:
        self._kill()
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        try:
            return self._exchanged(b"", START_S, begins=True)
        except OverrunError as error:
            raise RefusedError("the process for this did not start; see the gateway's log") from error

    def _exchanged(self, content: bytes, within_s: float, *, begins: bool = False) -> bytes:
        assert self._process is not None  # noqa: S101
        assert self._process.stdin is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        deadline_s = time.monotonic() + within_s
        try:
            if not begins:
                _write(self._process.stdin, len(content).to_bytes(8) + content, deadline_s)
            answer = _message(self._process.stdout, deadline_s)
        except (OSError, EOFError, TimeoutError) as error:
            self._kill()
            log.warning("resident_process_killed", command=self._command[-1], reason=str(error))
            raise OverrunError("it takes too much CPU time or memory") from error
        if answer[:1] == DONE:
            return answer[1:]
        raise RefusedError.decoded(answer[1:]) if answer[:1] == REFUSED else OverrunError(answer[1:].decode())

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _write(pipe: IO[bytes], content: bytes, deadline_s: float) -> None:
    rest = memoryview(content)
    os.set_blocking(pipe.fileno(), False)
    while rest:
        _wait(pipe, select.POLLOUT, deadline_s)
        rest = rest[os.write(pipe.fileno(), rest) :]


def _message(pipe: IO[bytes], deadline_s: float) -> bytes:
    length = int.from_bytes(_exactly(pipe, 8, deadline_s))
    if not 0 < length <= MAX_ANSWER_BYTES + 1:
        raise EOFError("its answer is too long")
    return _exactly(pipe, length, deadline_s)


def _exactly(pipe: IO[bytes], count: int, deadline_s: float) -> bytes:
    found = bytearray()
    while len(found) < count:
        _wait(pipe, select.POLLIN, deadline_s)
        piece = os.read(pipe.fileno(), min(count - len(found), _PIECE))
        if not piece:
            raise EOFError("it ended")
        found += piece
    return bytes(found)


def _wait(pipe: IO[bytes], event: int, deadline_s: float) -> None:
    ready = select.poll()
    ready.register(pipe, event)
    if not ready.poll(max(0.0, 1000 * (deadline_s - time.monotonic()))):
        raise TimeoutError("it does not answer")
