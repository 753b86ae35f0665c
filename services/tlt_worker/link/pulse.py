"""Counters in shared memory that show the scheduler process is alive."""

import mmap
import struct
from pathlib import Path

_COUNTS = struct.Struct("=QQQ")
"""Rounds, compilations begun, and whether one is running."""


class Pulse:
    """
    The file that both ends map. Counting takes a fraction of a microsecond and never blocks, unlike a message.

    The worker creates the file before the engine starts; only rank 0 counts.
    """

    def __init__(self, path: Path) -> None:
        with path.open("a+b") as file:
            file.truncate(_COUNTS.size)
            self._memory = mmap.mmap(file.fileno(), _COUNTS.size)

    @property
    def rounds(self) -> int:
        """Rounds processed since the engine started."""
        return self._read()[0]

    @property
    def compiled(self) -> int:
        """Functions and kernels whose compilation has started since the engine started."""
        return self._read()[1]

    @property
    def compiling(self) -> bool:
        """Whether a function or kernel is being compiled."""
        return bool(self._read()[2])

    def beat(self) -> None:
        """Count one round. Compilations that started earlier are done or have failed."""
        rounds, compiled, _ = self._read()
        _COUNTS.pack_into(self._memory, 0, rounds + 1, compiled, 0)

    def compile_begins(self) -> None:
        """Count a function or kernel whose compilation starts."""
        rounds, compiled, _ = self._read()
        _COUNTS.pack_into(self._memory, 0, rounds, compiled + 1, 1)

    def compile_ends(self) -> None:
        """
        Record that nothing is being compiled.

        A nested compilation ends the outer one, too, until the next starts.
        """
        rounds, compiled, _ = self._read()
        _COUNTS.pack_into(self._memory, 0, rounds, compiled, 0)

    def close(self) -> None:
        """Unmap the file."""
        self._memory.close()

    def _read(self) -> tuple[int, int, int]:
        rounds, compiled, compiling = _COUNTS.unpack_from(self._memory)
        return rounds, compiled, compiling
