"""The directories of weights that are left once the threads that work on disks are idle."""

import asyncio
from pathlib import Path
from threading import Barrier

from tlt_common.disk import THREADS, await_removals, on_disk


def spools_in(parent: Path) -> list[Path]:
    """Return the directories in `parent` that are not being removed."""
    await_removals(parent)
    return sorted(parent.glob("weights-*"))


async def disks_idle() -> None:
    """Wait until all work on disks that was begun has ended, with what its end entails."""
    together = Barrier(THREADS)
    await asyncio.gather(*(on_disk(together.wait) for _ in range(THREADS)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
