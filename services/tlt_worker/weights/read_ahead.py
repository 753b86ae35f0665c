"""Reads weights into memory before an engine loads them: generation is paused while it does."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from tlt_common.telemetry.log import get_logger
from tlt_common.weights.files import weight_files

log = get_logger(__name__)

PARALLEL_READS = 8
"""Parts read at the same time; one stream does not fill the link to a file server."""
PART_BYTES = 2**28
BUFFER_BYTES = 2**23


def read_ahead(directory: Path) -> bool:
    """
    Read a checkpoint's weights, so that they are in the page cache; return False if there is no room for them there.

    Blocks on disk reads.

    Raises:
        OSError: A file cannot be read.
    """
    sizes = {file: file.stat().st_size for file in weight_files(directory)}
    if sum(sizes.values()) > (room := psutil.virtual_memory().available):
        log.info("weights_not_read_ahead", directory=str(directory), bytes=sum(sizes.values()), room=room)
        return False
    with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="read-ahead") as pool:
        list(pool.map(_read, *zip(*_parts(sizes.items()), strict=True)))
    return True


def _parts(sizes: Iterable[tuple[Path, int]]) -> list[tuple[Path, int]]:
    return [(file, start) for file, size in sizes for start in range(0, max(1, size), PART_BYTES)]


def _read(file: Path, start: int) -> None:
    buffer, left = memoryview(bytearray(BUFFER_BYTES)), PART_BYTES
    with file.open("rb", buffering=0) as stream:
        stream.seek(start)
        while left > 0 and (count := stream.readinto(buffer[: min(left, BUFFER_BYTES)])):
            left -= count
