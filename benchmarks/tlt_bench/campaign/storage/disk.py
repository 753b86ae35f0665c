"""A small disk that can be filled: an in-memory file system, which only root can mount."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tlt_common.errors import ConfigError

BALLAST = ".ballast"
CHUNK = bytes(2**20)


def why_not() -> str:
    """Return why no disk can be mounted, or an empty string."""
    return "" if os.geteuid() == 0 else "disks: needs root, to mount file systems in memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallDisk:
    """A mounted disk."""

    path: Path

    def fill(self) -> None:
        """Write until the disk is full."""
        with (self.path / BALLAST).open("ab", buffering=0) as file:
            for size in (len(CHUNK), 4096, 1):
                try:
                    while file.write(CHUNK[:size]):
                        pass
                except OSError:  # full
                    continue

    def free(self) -> None:
        """Remove the files written by `fill`."""
        (self.path / BALLAST).unlink(missing_ok=True)


@asynccontextmanager
async def mounted(path: Path, *, size_bytes: int) -> AsyncIterator[SmallDisk]:
    """
    Mount a disk within the block.

    Raises:
        ConfigError: It cannot be mounted.
    """
    await asyncio.to_thread(path.mkdir, parents=True, exist_ok=True)
    if error := await _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(path)):
        raise ConfigError(f"{path} cannot be mounted: {error}")
    try:
        yield SmallDisk(path=path)
    finally:
        await asyncio.shield(_run("umount", "--lazy", str(path)))


async def _run(*command: str) -> str:
    """Run a command; return its stderr if it failed."""
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, errors = await process.communicate()
    return errors.decode().strip() or f"exit code {process.returncode}" if process.returncode else ""
