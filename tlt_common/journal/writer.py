"""Writes a journal in a dedicated thread, so that no request waits for a disk."""

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self

from tlt_common import __version__
from tlt_common.errors import ConfigError
from tlt_common.journal.files import JournalFile, file_of, files_of, is_own
from tlt_common.journal.format import Header, header_line, line_of
from tlt_common.journal.line import DroppedLine, Line
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

FLUSH_S = 1.0
"""Seconds for which lines are collected."""
MAX_WAITING = 2**15
"""Lines that wait for the disk at most, about 30 MB; beyond that, they are dropped and counted."""
FILES = 16
"""Files of a full journal. The oldest is deleted when another is begun."""
CLOSE_S = 2.0
"""Seconds for the last lines to be written at the end of the process."""


class JournalWriter:
    """
    The journal of a service and id, of bounded size.

    Lines are written while its context is entered. It stops if the directory cannot be used, or the disk is full or
    fails, which is logged once and exposed as a metric. The service starts and runs without it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        service: str,
        service_id: str,
        began_s: float,
        max_bytes: int,
        prepare: Callable[[Path], object] = lambda _: None,
    ) -> None:
        """
        Args:
            directory: Directory of its files; created if missing.
            service: Name of the service.
            service_id: Id of the service.
            began_s: Unix time at which the clock of its lines was set.
            max_bytes: Maximum total size of the files of this service and id, including earlier runs.
            prepare: Called with the directory before the first line is written, in the thread that writes; it may raise
                OSErrors and ConfigErrors.
        """
        self.directory = directory
        self._max_bytes = max_bytes
        self._header = Header(service=service, id=service_id, began=began_s, part=1, suite=__version__)
        self._lines: deque[Line] = deque()
        self._dropped = 0
        self._closing = Event()
        self._thread = Thread(target=self._run, name="journal", daemon=True)
        self._descriptor: int | None = None
        self._bytes = 0
        self._has_ended = False
        self._prepare = prepare
        self._number: int | None = None
        """Of the next file; None: nothing of the directory has been looked at."""
        metrics.JOURNAL_ENDED.set(0)

    def put(self, line: Line) -> None:
        """Add a line. Does not wait."""
        if self._has_ended:
            return
        if len(self._lines) >= MAX_WAITING:
            self.drop()
        else:
            self._lines.append(line)

    def drop(self) -> None:
        """Count a line that cannot be written."""
        self._dropped += 1
        metrics.JOURNAL_DROPPED.inc()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        self.flush()
        while not self._closing.wait(FLUSH_S):
            self.flush()
        self.flush()
        self._close()

    def flush(self) -> None:
        """Write the lines added so far. Called by one thread only."""
        try:
            if self._number is None and not self._has_ended:
                self._number = self._opened()
            while self._lines and not self._has_ended:
                self._write(self._next())
        except OSError as error:
            self._end(f"{error.strerror}: {error.filename or self.directory}")
        except ConfigError as error:
            self._end(error.message)

    def _next(self) -> bytes:
        """Return the next lines, as many as fit into one write."""
        found, size = list[bytes](), 0
        while self._lines and size < self._file_bytes // 4:
            line = self._lines.popleft()
            found.append(line_of(line))
            size += len(found[-1])
            if not self._lines and self._dropped:
                dropped, self._dropped = self._dropped, 0
                found.append(line_of(DroppedLine(at=line.at, lines=dropped)))
        return b"".join(found)

    @property
    def _file_bytes(self) -> int:
        return self._max_bytes // FILES

    def _write(self, content: bytes) -> None:
        """
        Append to the current file, or to a new one if it is full.

        Raises:
            OSError: The disk is full, or fails. A partial write is undone.
        """
        if self._descriptor is not None and self._bytes + len(content) > self._file_bytes:
            self._close()
        if self._descriptor is None:
            content = self._begin() + content
        _write_all(self._descriptor, self._bytes, content)
        self._bytes += len(content)
        metrics.JOURNAL_BYTES.inc(len(content))

    def _begin(self) -> bytes:
        """Open the next file, within the limit; return its header."""
        assert self._number is not None  # noqa: S101 - the directory has been looked at
        self._shrink()
        file = file_of(self.directory, self._header.service, self._header.id, self._number)
        self._descriptor = os.open(file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._bytes = 0
        header, self._number = self._header, self._number + 1
        self._header = Header(
            service=header.service, id=header.id, began=header.began, part=header.part + 1, suite=header.suite
        )
        return header_line(header)

    def _shrink(self) -> None:
        """Delete the oldest files to make room for another one."""
        sizes = {file.path: file.path.lstat().st_size for file in self._files() if is_own(file.path)}
        for path in list(sizes):
            if sum(sizes.values()) + self._file_bytes <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            del sizes[path]

    def _files(self) -> tuple[JournalFile, ...]:
        return files_of(self.directory, self._header.service, self._header.id)

    def _opened(self) -> int:
        """
        Create the directory, repair the end of the last file after a crash, and return the number of the next file.

        Raises:
            OSError, ConfigError: The directory cannot be used.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        self._prepare(self.directory)
        files = self._files()
        for file in files[-1:]:
            if is_own(file.path):
                _mend(file.path)
        return files[-1].number + 1 if files else 1

    def _end(self, why: str) -> None:
        self._has_ended = True
        self._lines.clear()
        self._close()
        metrics.JOURNAL_ENDED.set(1)
        log.warning(
            "journal_ended",
            directory=str(self.directory),
            error=why,
            advice="requests go on; mend the cause and restart the service to go on with the journal",
        )

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):  # the lines were written, or their loss is known
                os.close(descriptor)


def _write_all(descriptor: int | None, at: int, content: bytes) -> None:
    assert descriptor is not None  # noqa: S101 - a file was opened
    rest = memoryview(content)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, at)
        raise


def _mend(path: Path) -> None:
    """Truncate incomplete lines that a crash left at the end; delete a file without complete lines."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW), "r+b") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)
    if not whole:
        path.unlink()
