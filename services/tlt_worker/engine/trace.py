"""Rounds written to a file, for `tlt tuner replay`."""

import os
from pathlib import Path
from typing import TextIO

from tlt_common.bandit.trace import Round, header, line_of
from tlt_common.errors import ConfigError
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)


def require_writable(path: Path) -> None:
    """
    Find out before the engine starts whether its trace can be written.

    Raises:
        ConfigError: It cannot.
    """
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(f"trace: {path} cannot be written; accepted: a file in an existing folder", field="trace")


class TraceFile:
    """
    A file of bounded size: once it holds half of `most_bytes` it becomes PATH.1, in place of the one before.

    Writing a round takes some microseconds; lines reach the disk when the buffer is full, or on `flush`. A disk that
    fails ends the trace and not the engine.
    """

    def __init__(self, path: Path, *, most_bytes: int) -> None:
        self._path = path
        self._most_bytes = most_bytes // 2
        self._bytes = 0
        self._file: TextIO | None = None
        try:
            self._begin()
        except OSError as error:
            self._end(error)

    def write(self, played: Round) -> None:
        """Append a round."""
        if self._file is None:
            return
        line = line_of(played) + "\n"
        try:
            if self._bytes + len(line) > self._most_bytes:
                self._file.close()
                self._path.replace(self._path.with_name(self._path.name + ".1"))
                self._begin()
            self._file.write(line)
        except OSError as error:
            self._end(error)
        self._bytes += len(line)

    def flush(self) -> None:
        """Write what is buffered."""
        try:
            if self._file is not None:
                self._file.flush()
        except OSError as error:
            self._end(error)

    def _begin(self) -> None:
        self._file = self._path.open("w")
        self._bytes = self._file.write(header() + "\n")

    def _end(self, error: OSError) -> None:
        self._file = None
        log.warning("trace_ended", path=str(self._path), error=error.strerror)
