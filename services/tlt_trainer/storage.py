"""
Directories of a few files, complete or not there: for checkpoints and published drafters.

On a local disk a directory is written under a temporary name and renamed. Object stores have no rename, so there the
last file is the mark: without it a directory does not count.
"""

import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs

from tlt_common.errors import NotFoundError, UnavailableError


class Storage:
    """
    Directories under one URL (path, file://, s3://, gs://, ...). Methods block: call them in a thread.

    Args:
        url: Created when first written to.
        mark: Name of the file that is written last.
    """

    def __init__(self, url: str, *, mark: str) -> None:
        self._fs, self._root = _opened(url)
        self._mark = mark
        self._is_local = "file" in _protocols(self._fs)

    def write(self, name: str, files: Mapping[str, bytes]) -> str:
        """
        Write a directory, the mark's file last; return its URI.

        Raises:
            UnavailableError: The storage cannot be written.
        """
        final = f"{self._root}/{name}"
        ordered = sorted(files, key=lambda file: file == self._mark)
        at = f"{self._root}/.{name}.{uuid.uuid4().hex[:8]}" if self._is_local else final
        try:
            self._fs.makedirs(at, exist_ok=True)
            for file in ordered:
                self._fs.pipe_file(f"{at}/{file}", files[file])
            if self._is_local:
                Path(at).rename(final)
        except OSError as error:
            if self._is_local:
                shutil.rmtree(at, ignore_errors=True)
            raise UnavailableError(f"{final} cannot be written: {error}") from error
        return str(final) if self._is_local else str(self._fs.unstrip_protocol(final))

    def names(self) -> list[str]:
        """Return the names of complete directories, in order."""
        self._fs.invalidate_cache()
        if not self._fs.exists(self._root):
            return []
        paths = (str(path).rstrip("/") for path in self._fs.ls(self._root, detail=False))
        names = [path.rsplit("/", 1)[-1] for path in paths]
        return sorted(n for n in names if not n.startswith(".") and self._fs.exists(f"{self._root}/{n}/{self._mark}"))

    def read(self, name: str) -> dict[str, bytes]:
        """
        Return all files of a directory.

        Raises:
            NotFoundError: It is not there or not complete.
        """
        return _read(self._fs, f"{self._root}/{name}", self._mark)

    def remove(self, name: str) -> None:
        """Remove a directory; one that is not there is removed already."""
        if self._fs.exists(f"{self._root}/{name}"):
            self._fs.rm(f"{self._root}/{name}", recursive=True)

    def sweep(self) -> None:
        """Remove what a writer that died left half written. Only where nobody else writes."""
        if self._is_local and Path(self._root).is_dir():
            for path in Path(self._root).glob(".*"):
                shutil.rmtree(path, ignore_errors=True)


def read_uri(uri: str, *, mark: str) -> dict[str, bytes]:
    """
    Return all files of a directory that another process wrote.

    Raises:
        NotFoundError: It is not there or not complete.
    """
    fs, path = _opened(uri)
    return _read(fs, path, mark)


def _opened(url: str) -> tuple[Any, str]:
    fs, path = url_to_fs(url)
    return fs, str(path).rstrip("/")


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def _read(fs: Any, path: str, mark: str) -> dict[str, bytes]:
    try:
        if not fs.exists(f"{path}/{mark}"):
            raise NotFoundError(f"{path} has no {mark}: not there, or not complete")
        files = [str(file) for file in fs.ls(path, detail=False)]
        return {file.rsplit("/", 1)[-1]: bytes(fs.cat_file(file)) for file in files}
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error}") from error
