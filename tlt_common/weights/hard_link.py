"""
Hard links to another process's spool, so that processes on one machine store the same weights once.

A link is an independent name: the file stays when its owner deletes the spool. It is only ever opened for reading.
"""

import os
import stat
from pathlib import Path

from tlt_common.domain.weights import SpoolFile
from tlt_common.errors import WeightsUnreadableError
from tlt_common.weights.layout import FILE_NAME
from tlt_common.weights.locked_directory import PREFIX, LockedDirectory


def described(file: Path) -> SpoolFile | None:
    """Return the information that others need to link a file; None if it is gone. Blocks on the disk."""
    try:
        path = file.resolve(strict=True)
        found = path.stat()
    except OSError:  # deleted with its release
        return None
    return SpoolFile(path=str(path), device=found.st_dev, inode=found.st_ino)


def link(parent: Path, file: SpoolFile) -> LockedDirectory:
    """
    Create a directory in `parent` with a link to the file. Blocks on the disk.

    Raises:
        WeightsUnreadableError: The file is not a spool's, not the one offered, belongs to another user, is gone, or is
            on another file system.
    """
    source = Path(file.path)
    if not source.is_absolute() or source.name != FILE_NAME or not source.parent.name.startswith(PREFIX):
        raise _refused(file, f"is not named like the file of a spool, /DIRECTORY/{PREFIX}NAME/{FILE_NAME}")
    try:
        locked = LockedDirectory.create(parent)
    except OSError as error:
        raise _refused(file, str(error)) from error
    try:
        _link(source, locked.directory / FILE_NAME)
        _require_same(file, locked.directory / FILE_NAME)
    except BaseException as error:
        locked.remove()
        if isinstance(error, OSError | ValueError):  # a null byte in the path is a ValueError
            raise _refused(file, str(error)) from error
        raise
    return locked


def _link(source: Path, to: Path) -> None:
    # Neither the spool's directory nor the file may be a symbolic link: they name what their owner created.
    directory = os.open(source.parent, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.link(source.name, to, src_dir_fd=directory, follow_symlinks=False)
    finally:
        os.close(directory)


def _require_same(file: SpoolFile, linked: Path) -> None:
    # The link, not the offered path, which may name something else by now. O_PATH opens nothing that blocks.
    descriptor = os.open(linked, os.O_PATH | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise _refused(file, "is not a regular file")
    if (found.st_dev, found.st_ino) != (file.device, file.inode):
        raise _refused(file, "is another file than the one offered")
    if found.st_uid != os.geteuid():
        raise _refused(file, "belongs to another user, who could change it")


def _refused(file: SpoolFile, why: str) -> WeightsUnreadableError:
    return WeightsUnreadableError(f"{file.path!r} cannot be linked: {why}", field="file")
