"""Writes the deepened version of the shipped policy, in a process of its own."""

import asyncio
import sys
from pathlib import Path

from countdown.settings import SERVED_LAYERS
from tlt_common.errors import TltError


async def deepened(out: Path, layers: int = SERVED_LAYERS) -> None:
    """
    Write the shipped policy, deepened to `layers`.

    Raises:
        TltError: The shipped checkpoint cannot be read.
    """
    # In a separate process, so that this one never loads torch, whose threads would disturb the measurement.
    code = (
        "from pathlib import Path; from countdown.model import CHECKPOINT, write_served_checkpoint;"
        f"write_served_checkpoint(CHECKPOINT, Path({str(out)!r}), {layers})"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    if await process.wait():
        raise TltError("the shipped checkpoint cannot be read")


async def served_checkpoint(layers: int, directory: Path) -> Path:
    """
    Write the checkpoint that engines serve, with `layers`, to the directory of a run; return its directory.

    Raises:
        TltError: The shipped checkpoint cannot be read.
    """
    await deepened(directory / "served", layers)
    return directory / "served"
