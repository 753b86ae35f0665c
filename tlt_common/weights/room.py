"""How large weights may be that are written to a volume."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from tlt_common.errors import WeightsError

COPIES = 2
"""What a volume holds during an update: the weights served and those that arrive."""


def fitting(max_bytes: int, *, volume_bytes: int | None) -> int:
    """Return the maximum size of weights on a volume of this size; None sets no limit."""
    return max_bytes if volume_bytes is None else min(max_bytes, volume_bytes // COPIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolRoom:
    """
    A directory of spools and what bounds them.

    Attributes:
        directory: The directory; it may be missing.
        max_bytes: Maximum size of weights.
        volume_bytes: Size of the volume, if it is smaller than its file system; None: the file system's.
    """

    directory: Path
    max_bytes: int
    volume_bytes: int | None = None

    def limit(self) -> tuple[int, str]:
        """Return the maximum size of the next weights in bytes, and where it comes from."""
        bounds = [(self.max_bytes, "on any volume")]
        if (fitted := fitting(self.max_bytes, volume_bytes=self.volume_bytes)) < self.max_bytes:
            bounds.append((fitted, f"half of the volume of {self.directory} (spool_bytes)"))
        existing = next((it for it in (self.directory, *self.directory.parents) if it.is_dir()), None)
        if existing is not None:
            bounds.append((shutil.disk_usage(existing).free, f"what is free in {self.directory}"))
        return min(bounds)

    def require(self, size_bytes: int) -> None:
        """
        Check that announced weights have room.

        Raises:
            WeightsError: They have not; the message has both figures.
        """
        limit, why = self.limit()
        if size_bytes > limit:
            raise WeightsError(
                f"the weights have {size_bytes} bytes; the maximum is {limit}, {why}. Publish a directory "
                "instead, or enlarge the volume",
                field="header.size_bytes",
            )
