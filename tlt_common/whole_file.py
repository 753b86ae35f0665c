"""Atomic replacement of files."""

import os
from pathlib import Path


def write_whole(file: Path, content: bytes, *, durable: bool = False) -> None:
    """
    Replace a file atomically: readers see either the old or the new content.

    Args:
        file: The file; its directory must exist.
        content: The new content.
        durable: Also survive a crash of the machine. Blocks until the disk has written the content.

    Raises:
        OSError: It cannot be written; the old file remains.
    """
    partial = file.with_name(f"{file.name}.partial")
    with partial.open("wb") as stream:
        stream.write(content)
        if durable:
            stream.flush()
            os.fsync(stream.fileno())
    partial.replace(file)
