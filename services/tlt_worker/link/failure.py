"""What ended SGLang's scheduler: it logs its exception and says nothing of it to the process that launched it."""

import logging
from pathlib import Path

_LOGGER = "sglang.srt.managers.scheduler"
_MARK = "hit an exception"
"""In the message that SGLang 0.5.23 logs with the traceback (`managers/scheduler.py`, `run_scheduler_process`)."""


class FailureNote(logging.Handler):
    """Keeps the last line of a scheduler's traceback in a file. Of several ranks, the first one's."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        """Note a record if it is the scheduler's last."""
        lines = [line.strip() for line in record.getMessage().splitlines() if line.strip()]
        if _MARK in record.getMessage() and not self._path.exists():
            self._path.write_text(lines[-1])


def note_failure(path: Path) -> None:
    """Note what ends the scheduler of this process. SGLang replaces the handlers of the root logger only."""
    logging.getLogger(_LOGGER).addHandler(FailureNote(path))


def read_failure(path: Path) -> str:
    """Return what ended the scheduler; empty: it did not say, as when the system killed it."""
    return path.read_text().strip() if path.is_file() else ""
