"""Trace of rounds written to a file, for `tlt bench tuner --trace`."""

from contextlib import suppress
from pathlib import Path
from typing import TextIO

from tlt_common.bandit.round_trace import TracedRound, header, line_of
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

TRACE_BYTES = 64 * 2**20
"""Maximum size of a worker's trace, the current file and the previous one: half a million rounds of small batches."""


class TraceFile:
    """
    A file of bounded size: at half of `max_bytes` it is renamed to PATH.1, replacing the previous one.

    Writing a round takes a few microseconds; lines are written to disk when the buffer is full, or on `flush`. A disk
    error ends the trace, not the engine.
    """

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes // 2
        self._bytes = 0
        self._file: TextIO | None = None
        try:
            self._begin()
        except OSError as error:
            self._end(error)

    def write(self, played: TracedRound) -> None:
        """Append a round."""
        if self._file is None:
            return
        line = line_of(played) + "\n"
        try:
            if self._bytes + len(line) > self._max_bytes:
                self._file.close()
                self._path.replace(self._path.with_name(self._path.name + ".1"))
                self._begin()
            self._file.write(line)
        except OSError as error:
            self._end(error)
        self._bytes += len(line)

    def flush(self) -> None:
        """Write the buffer to the file."""
        try:
            if self._file is not None:
                self._file.flush()
        except OSError as error:
            self._end(error)

    def close(self) -> None:
        """Flush and close the file; later rounds are not written."""
        try:
            if self._file is not None:
                self._file.close()
        except OSError as error:
            self._end(error)
        self._file = None

    def _begin(self) -> None:
        self._file = self._path.open("w")
        self._bytes = self._file.write(header() + "\n")

    def _end(self, error: OSError) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # closing flushes again and may fail again
                file.close()
        log.warning("trace_ended", path=str(self._path), error=error.strerror)
