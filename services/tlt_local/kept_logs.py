"""The logs of a start that failed, kept where the user can read them after the run's files are gone."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tlt_common.errors import TltError
from tlt_local.home import Home


class KeptLogs:
    """Copies the logs of one run if its start fails."""

    def __init__(self) -> None:
        self._at: Path | None = None
        self._is_copy = False

    @contextmanager
    def unless_started(self, home: Home) -> Iterator[None]:
        """Keep the logs if the block raises; those of a run with a directory of its own stay there."""
        try:
            yield
        except BaseException:
            self._is_copy = home.data.is_relative_to(home.directory)
            self._at = Path(tempfile.mkdtemp(prefix="tlt-logs-")) if self._is_copy else home.logs
            if self._is_copy:
                shutil.copytree(home.logs, self._at, dirs_exist_ok=True)
            raise

    def shown(self, error: BaseException) -> BaseException:
        """Return the error that ended the start, with where the logs are; unchanged if the start succeeded."""
        if self._at is None or not isinstance(error, TltError):
            return error
        return type(error)(f"{error.message}; logs: {self._at}", field=error.field)

    def drop(self) -> None:
        """Remove the copy: the start did not fail, it was cancelled."""
        if self._at is not None and self._is_copy:
            shutil.rmtree(self._at, ignore_errors=True)
