"""Rotates the logs of a long run: each is bounded, with one older file next to it."""

import asyncio
import shutil
from pathlib import Path
from typing import Never

from tlt_common.disk import on_disk
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

LOOK_S = 10.0
MAX_BYTES = 64 * 2**20
"""Size above which a log is moved to its older file."""
OLDER = ".1"
"""Suffix of the older file, which the next one replaces."""


async def rotate_all(directory: Path, *, max_bytes: int = MAX_BYTES) -> Never:
    """Rotate the logs of a directory until cancelled."""
    while True:
        await asyncio.sleep(LOOK_S)
        try:
            await on_disk(rotate, directory, max_bytes)
        except OSError as error:  # a full disk: tried again
            log.warning("log_not_rotated", directory=str(directory), error=str(error))


def rotate(directory: Path, max_bytes: int) -> None:
    """
    Move the content of logs above `max_bytes` to their older files.

    Processes keep their logs open for appending, so a log is copied and then truncated. Lines written in between are
    lost.

    Raises:
        OSError: A log cannot be copied; it stays unchanged.
    """
    for path in sorted(directory.glob("*.log")):
        if path.stat().st_size > max_bytes:
            shutil.copyfile(path, path.with_name(path.name + OLDER))
            with path.open("r+b") as file:
                file.truncate()
