"""Copies of a directory of files, on disk or in an object store."""

from pathlib import Path

from tlt_trainer.store.storage import Storage


def stored(directory: Path, url: str, name: str) -> str:
    """
    Copy the files of a directory to URL/NAME, a path or what fsspec supports; return the URI of the copy. Blocks.

    Raises:
        UnavailableError: The storage cannot be written.
    """
    files = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    return Storage(url, mark="config.json").write(name, files)
