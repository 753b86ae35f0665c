"""Files that are reloaded when they change. If a new version is invalid, the last valid one stays in use."""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Generic, TypeAlias, TypeVar

from tlt_common.errors import ConfigError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

T = TypeVar("T")

Stamp: TypeAlias = tuple[tuple[int, int, int], ...]
"""Changes when a file is written or replaced: inode, modification time and size of each file."""


class Reloaded(Generic[T]):
    """
    The value that `read` derives from files. Thread-safe.

    Args:
        kind: Name in metrics and logs.
        files: The files to watch.
        read: Reads the files; raises ConfigError if they are invalid.

    Raises:
        ConfigError: The files are invalid at the start.
    """

    def __init__(self, kind: str, files: Sequence[Path], read: Callable[[], T]) -> None:
        self._kind = kind
        self._files = files
        self._read = read
        self._lock = Lock()
        self._seen = self._stamp()
        self._value = read()

    def current(self) -> T:
        """
        Return the value of the current files, or of their last valid version. The same object is returned until they
        change.

        Renewals write one file after another, so mismatched files must not stop a service. They are counted and logged
        once, and read again when they change.
        """
        with self._lock:
            stamp = self._stamp()
            if stamp != self._seen:
                self._renew(stamp)
            return self._value

    def _renew(self, stamp: Stamp | None) -> None:
        try:
            value = self._read()
        except ConfigError as error:
            metrics.RPC_RELOADS.labels(kind=self._kind, outcome="refused").inc()
            log.error("reload_refused", kind=self._kind, field=error.field, error=error.message)  # noqa: TRY400
        else:
            # Files read in the middle of a renewal may match by chance; the next call reads them again.
            if stamp == self._stamp():
                self._value = value
                metrics.RPC_RELOADS.labels(kind=self._kind, outcome="loaded").inc()
                log.info("reloaded", kind=self._kind)
        self._seen = stamp

    def _stamp(self) -> Stamp | None:
        """Return None while a file is missing."""
        try:
            stats = [path.stat() for path in self._files]
        except OSError:
            return None
        return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)


def read_bytes(path: Path, field: str) -> bytes:
    """
    Read a file named by a configuration key.

    Raises:
        ConfigError: The file is unreadable; the message names the key.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{field}: {path}: {error.strerror}", field=field) from error
