"""Keeps the error that ended SGLang's scheduler, which logs it without reporting it to its parent process."""

import logging
from pathlib import Path

_LOGGER = "sglang.srt.managers.scheduler"
_MARK = "hit an exception"
"""In the message that SGLang 0.5.23 logs with the traceback (`managers/scheduler.py`, `run_scheduler_process`)."""


class FailureNote(logging.Handler):
    """Writes the last line of a scheduler's traceback to a file. With several ranks, the first one's is kept."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record if it reports the scheduler's end."""
        lines = [line.strip() for line in record.getMessage().splitlines() if line.strip()]
        if _MARK in record.getMessage() and not self._path.exists():
            self._path.write_text(lines[-1])


def note_failure(path: Path) -> None:
    """Keep the error that ends the scheduler of this process. SGLang replaces the handlers of the root logger only."""
    logging.getLogger(_LOGGER).addHandler(FailureNote(path))


def read_failure(path: Path) -> str:
    """Return the error that ended the scheduler; empty if it left none, for example if the system killed it."""
    return path.read_text().strip() if path.is_file() else ""
