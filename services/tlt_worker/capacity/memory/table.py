"""The memory table of one GPU, with every allocation of the worker's processes. Pure."""

from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Memory for one purpose, in bytes."""

    name: str
    bytes: int
    owner: str = "engine"
    """`engine` or `trainer`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTable:
    """Division of one GPU's memory."""

    total: int
    """Memory of the GPU, in bytes."""
    rows: tuple[Row, ...]

    @property
    def free(self) -> int:
        """Bytes that are not planned for anything."""
        return max(0, self.total - self._taken)

    @property
    def unplanned(self) -> int:
        """Bytes planned beyond the GPU's memory."""
        return max(0, self._taken - self.total)

    @property
    def _taken(self) -> int:
        return sum(row.bytes for row in self.rows)

    def of(self, name: str) -> int:
        """Return the bytes of a row; 0 if there is none."""
        return sum(row.bytes for row in self.rows if row.name == name)

    def owned(self, owner: str) -> int:
        """Return the bytes of a process."""
        return sum(row.bytes for row in self.rows if row.owner == owner)
