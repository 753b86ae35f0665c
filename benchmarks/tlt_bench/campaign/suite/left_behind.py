"""Leftovers of a run on the machine after its end."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tlt_bench.campaign.suite.processes import commands
from tlt_common.processes.guard import shared_memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """Resources used by a run."""

    token: str
    directory: Path
    """Private files; the run removes them."""
    shared_memory: frozenset[Path]

    @classmethod
    def of(cls, token: str, directory: Path) -> Self:
        """Return the traces of a run that is up."""
        shared = frozenset(path for pid in commands(token) for path in shared_memory(pid))
        return cls(token=token, directory=directory, shared_memory=shared)

    def left(self) -> list[str]:
        """Return a sentence for each leftover process and file."""
        found = [f"process {pid} is left: {' '.join(command.split(chr(0)))[:200]}" for pid, command in self._alive()]
        if self.directory.exists():
            files = sum(len(names) for _, _, names in os.walk(self.directory))
            found.append(f"{self.directory} is left, with {files} files")
        return found + [f"{path} is left" for path in sorted(self.shared_memory) if path.exists()]

    def _alive(self) -> list[tuple[int, str]]:
        return sorted(commands(self.token).items())


def spools(directory: Path) -> list[Path]:
    """Return the weight directories of a run's gateways and workers, anywhere below its files."""
    skipped = {"ray"}
    found = []
    for folder, names, files in os.walk(directory):
        names[:] = [name for name in names if name not in skipped]
        if any(name.endswith(".safetensors") for name in files):
            found.append(Path(folder))
    return sorted(found)
