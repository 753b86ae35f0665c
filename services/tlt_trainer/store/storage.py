"""
Directories with a few files, written atomically, for checkpoints and published drafters.

On a local disk a directory is written under a temporary name and renamed. Object stores have no rename; there, the last
file marks completeness, and a directory without it is ignored.

Every error of a store is converted here: to NotFoundError if the store answered that the directory does not exist, and
to UnavailableError otherwise, after which the directory may still exist.
"""

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs

from tlt_common.errors import ConfigError, NotFoundError, TltError, UnavailableError

SET_ASIDE = ".damaged"
"""Suffix of a directory that was set aside."""


class Storage:
    """
    Directories under one URL (path, file://, s3://, gs://, ...). Methods block: call them in a thread.

    Args:
        url: Created on the first write.
        mark: Name of the file that is written last.

    Raises:
        ConfigError: The URL's scheme is unknown, or its package is not installed.
    """

    def __init__(self, url: str, *, mark: str) -> None:
        try:
            self._fs, self._root = _opened(url)
        except (ValueError, ImportError) as error:
            raise ConfigError(f"{url} cannot be opened: {error}; accepted: a path or an fsspec URL") from error
        self._mark = mark
        self._is_local = "file" in _protocols(self._fs)

    def write(self, name: str, files: Mapping[str, bytes]) -> str:
        """
        Write a directory, the marking file last; return its URI.

        Raises:
            UnavailableError: The storage cannot be written.
        """
        final = f"{self._root}/{name}"
        ordered = sorted(files, key=lambda file: file == self._mark)
        at = f"{self._root}/.{name}.{uuid.uuid4().hex[:8]}" if self._is_local else final
        try:
            with _converted(final, "written"):
                self._fs.makedirs(at, exist_ok=True)
                for file in ordered:
                    self._fs.pipe_file(f"{at}/{file}", files[file])
                if self._is_local:
                    # A rename may reach the disk before what it names does.
                    for path in (*(Path(at) / file for file in ordered), Path(at)):
                        _to_disk(path)
                    Path(at).rename(final)
                    _to_disk(Path(self._root))
        except UnavailableError:
            with suppress(UnavailableError), _converted(at, "removed"):
                self._fs.rm(at, recursive=True)
            raise
        return str(final) if self._is_local else str(self._fs.unstrip_protocol(final))

    def names(self) -> list[str]:
        """
        Return the names of complete directories, sorted.

        Raises:
            UnavailableError: The storage cannot be read.
        """
        with _converted(self._root, "listed"):
            self._fs.invalidate_cache()
            try:
                paths = [str(path).rstrip("/") for path in self._fs.ls(self._root, detail=False)]
            except FileNotFoundError:
                return []
            names = (path.rsplit("/", 1)[-1] for path in paths)
            return sorted(
                n for n in names if not n.startswith(".") and _has(self._fs, f"{self._root}/{n}/{self._mark}")
            )

    def read(self, name: str) -> dict[str, bytes]:
        """
        Return all files of a directory.

        Raises:
            NotFoundError: The directory does not exist or is incomplete.
            UnavailableError: The storage cannot be read now.
        """
        return _read(self._fs, f"{self._root}/{name}", self._mark)

    def read_some(self, name: str, files: Sequence[str]) -> dict[str, bytes]:
        """
        Return some files of a directory.

        Raises:
            NotFoundError: A file does not exist.
            UnavailableError: The storage cannot be read now.
        """
        with _converted(f"{self._root}/{name}", "read"):
            try:
                return {file: bytes(self._fs.cat_file(f"{self._root}/{name}/{file}")) for file in files}
            except FileNotFoundError as error:
                raise NotFoundError(f"{self._root}/{name} has not all of {', '.join(files)}") from error

    def remove(self, name: str) -> None:
        """
        Remove a directory. Does nothing if it does not exist.

        Raises:
            UnavailableError: The storage cannot be written.
        """
        path = f"{self._root}/{name}"
        with _converted(path, "removed"), suppress(FileNotFoundError):
            if self._is_local:  # a writer that is killed meanwhile leaves what `sweep` removes
                hidden = f"{self._root}/.{name}.{uuid.uuid4().hex[:8]}"
                Path(path).rename(hidden)
                path = hidden
            self._fs.rm(path, recursive=True)

    def set_aside(self, name: str) -> str:
        """
        Rename a directory to NAME.damaged, so that it is kept for inspection but never read; return the new name.

        Raises:
            UnavailableError: The storage cannot be written.
        """
        with _converted(f"{self._root}/{name}", "renamed"):
            if self._is_local:
                Path(f"{self._root}/{name}").rename(f"{self._root}/{name}{SET_ASIDE}")
            else:
                self._fs.invalidate_cache()
                for path in map(str, self._fs.ls(f"{self._root}/{name}", detail=False)):
                    self._fs.copy(path, f"{self._root}/{name}{SET_ASIDE}/{path.rsplit('/', 1)[-1]}")
                self._fs.rm(f"{self._root}/{name}", recursive=True)
        return f"{name}{SET_ASIDE}"

    def sweep(self) -> list[str]:
        """Remove incomplete directories of a dead writer. Call it only where no other process writes."""
        found = sorted(Path(self._root).glob(".*")) if self._is_local and Path(self._root).is_dir() else []
        for path in found:
            shutil.rmtree(path, ignore_errors=True)
        return [path.name for path in found]


def read_uri(uri: str, *, mark: str) -> dict[str, bytes]:
    """
    Return all files of a directory written by another process.

    Raises:
        NotFoundError: It does not exist or is incomplete.
        UnavailableError: The storage cannot be read now.
    """
    with _converted(uri, "opened"):
        fs, path = _opened(uri)
    return _read(fs, path, mark)


def _to_disk(path: Path) -> None:
    """Wait until a file, or the entries of a directory, would survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _opened(url: str) -> tuple[Any, str]:
    fs, path = url_to_fs(url)
    return fs, str(path).rstrip("/")


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def _read(fs: Any, path: str, mark: str) -> dict[str, bytes]:
    with _converted(path, "read"):
        fs.invalidate_cache()
        if not _has(fs, f"{path}/{mark}"):
            raise NotFoundError(f"{path} has no {mark}: it does not exist or is incomplete")
        try:
            files = [str(file) for file in fs.ls(path, detail=False)]
            return {file.rsplit("/", 1)[-1]: bytes(fs.cat_file(file)) for file in files}
        except FileNotFoundError as error:
            raise NotFoundError(f"{path} was removed while it was read") from error


def _has(fs: Any, path: str) -> bool:
    # Not fs.exists: it takes every error of the store for "does not exist".
    try:
        fs.info(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


@contextmanager
def _converted(path: str, action: str) -> Iterator[None]:
    """
    Convert errors of the store.

    Raises:
        UnavailableError: The store failed in any way.
    """
    try:
        yield
    except TltError:
        raise
    except Exception as error:  # every kind of store raises its own: botocore's and gcsfs's are no OSErrors
        raise UnavailableError(f"{path} cannot be {action}: {error or type(error).__name__}") from error
