"""Keeps the logs of a failed start where the user can read them after the run's files are gone."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tlt_common.errors import TltError
from tlt_local.supervision.home import Home

RAY = "ray"
"""Directory of Ray's logs beside the suite's: a replica that cannot be made says so only there."""


class KeptLogs:
    """Copies the logs of a run if its start fails."""

    def __init__(self) -> None:
        self._at: Path | None = None
        self._copies: Path | None = None

    @contextmanager
    def unless_started(self, home: Home) -> Iterator[None]:
        """Keep the logs if the block raises. Logs of a run with its own directory stay there."""
        try:
            yield
        except BaseException:
            is_kept = not home.data.is_relative_to(home.directory)
            self._at = home.logs if is_kept else Path(tempfile.mkdtemp(prefix="tlt-logs-"))
            self._copies = self._at / RAY if is_kept else self._at
            if not is_kept:
                shutil.copytree(home.logs, self._at, dirs_exist_ok=True)
            if (ray := home.directory / "ray" / "session_latest" / "logs").is_dir():
                shutil.copytree(ray, self._at / RAY, dirs_exist_ok=True, ignore=_empty)
            raise

    def shown(self, error: BaseException) -> BaseException:
        """Return the error that ended the start, with the location of the logs; unchanged if the start succeeded."""
        if self._at is None:
            return error
        if isinstance(error, TltError):
            return type(error)(f"{error.message}; logs: {self._at}", field=error.field)
        error.add_note(f"logs: {self._at}")
        return error

    def drop(self) -> None:
        """Remove the copies, because the start was cancelled rather than failed."""
        if self._copies is not None:
            shutil.rmtree(self._copies, ignore_errors=True)


def _empty(directory: str, names: list[str]) -> list[str]:
    """Return the entries that are not worth a copy: empty files, links, and sockets."""
    entries = {name: Path(directory, name) for name in names}
    return [
        name
        for name, path in entries.items()
        if path.is_symlink() or not (path.is_dir() or (path.is_file() and path.stat().st_size))
    ]
