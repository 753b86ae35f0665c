"""A part of `tlt bench gpu`, and its outcome."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import Field

from tlt_common.config.base import Frozen

LIMIT_S: Final = 480.0
"""A machine may be lent for minutes only."""
RESULT: Final = "{result}"
"""Stands for the file that a command writes its JSON object to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPart:
    """One command, and what it shows."""

    name: str
    shows: str
    command: tuple[str, ...]
    """Arguments of Python; `RESULT` among them is replaced."""
    needs_gpu: bool = False
    """Skipped by name where there is no GPU."""


class GpuOutcome(Frozen):
    """What became of a part."""

    name: str
    shows: str
    command: str
    seconds: float
    status: str
    """`passed`, `failed`, `timed out` or `skipped: REASON`."""
    figures: dict[str, float] = Field(default_factory=dict)
    """As the command printed them."""
    tail: str = ""
    """The end of its output, unless it passed."""

    @property
    def is_final(self) -> bool:
        """Whether the part need not run again."""
        return self.status == "passed"

    @classmethod
    def path(cls, directory: Path, name: str) -> Path:
        """Return the file of a part's outcome."""
        return directory / f"{name}.json"
