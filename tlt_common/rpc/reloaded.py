"""Files that are read anew when they change. A bad new version is passed over: what was good stays."""

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
"""What changes when files are written or replaced: inode, time and size of each."""


class Reloaded(Generic[T]):
    """
    What `read` makes of files. May be asked from any thread.

    Args:
        kind: Names it in metrics and logs.
        read: Raises ConfigError when the files cannot be used.

    Raises:
        ConfigError: They cannot be used at the start.
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
        As the files are now, or were when they were good last; the same object until they change.

        Renewals write one file after the other, so that files which do not fit together are no reason to end a
        service. They are counted and logged once, and looked at again when one of them changes again.
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
            # A set read in the middle of a renewal may fit together by chance; the next look reads it again.
            if stamp == self._stamp():
                self._value = value
                metrics.RPC_RELOADS.labels(kind=self._kind, outcome="loaded").inc()
                log.info("reloaded", kind=self._kind)
        self._seen = stamp

    def _stamp(self) -> Stamp | None:
        """None while a file is missing."""
        try:
            stats = [path.stat() for path in self._files]
        except OSError:
            return None
        return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)


def read_bytes(path: Path, field: str) -> bytes:
    """
    Read a file that a configuration key names.

    Raises:
        ConfigError: It cannot be read; names the key.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{field}: {path}: {error.strerror}", field=field) from error
