"""
Locked directories of weights, so that leftovers of dead processes can be detected.

The kernel releases the lock when the process ends, for whatever reason.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tlt_common.disk import await_removals, remove_beside

PREFIX = "weights-"
_LOCK = ".lock"


class LockedDirectory:
    """A directory that belongs to this process until `remove` or `release`."""

    def __init__(self, directory: Path, descriptor: int) -> None:
        self.directory = directory
        self._descriptor: int | None = descriptor
        self._is_removed = False

    @classmethod
    def create(cls, parent: Path) -> "LockedDirectory":
        """
        Create a new directory in `parent`, which is created as well.

        Raises:
            OSError: The directory cannot be created, for example because the disk is full.
        """
        await_removals(parent)
        parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(parent):
            directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            descriptor = _locked(directory)
        if descriptor is None:
            raise OSError(f"{directory} is locked by another process")
        return cls(directory, descriptor)

    def release(self) -> None:
        """Give up the lock and leave the directory."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def remove(self) -> None:
        """Delete the directory soon, or immediately without an event loop. Idempotent."""
        if not self._is_removed:
            self._is_removed = True
            remove_beside(self.directory.parent, self._remove)

    def _remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.release()


def abandoned(parent: Path) -> list[LockedDirectory]:
    """Take over the directories in `parent` whose process has ended."""
    if not parent.is_dir():
        return []
    with _exclusive(parent):
        return [
            LockedDirectory(directory, descriptor)
            for directory in sorted(parent.glob(f"{PREFIX}*"))
            if directory.is_dir() and (descriptor := _locked(directory)) is not None
        ]


def sweep(parent: Path) -> None:
    """Delete the directories in `parent` whose process has ended."""
    for locked in abandoned(parent):
        locked.remove()


@contextmanager
def _exclusive(parent: Path) -> Iterator[None]:
    """Prevent other processes from taking over a directory that was created but is not locked yet."""
    descriptor = os.open(parent / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _locked(directory: Path) -> int | None:
    descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
