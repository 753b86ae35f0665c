"""A part of `tlt bench gpu`, and its outcome."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import Field

from tlt_common.config.base import Frozen
from tlt_local.models.published import PublishedModel

LIMIT_S: Final = 480.0
"""A machine may be lent for minutes only."""
RESULT: Final = "{result}"
"""Stands for the file that a command writes its JSON object to."""
MODELS: Final = "{models}"
"""Stands for the directory of random models."""
KEPT: Final = "{kept}"
"""Stands for the directory of outcomes; a part `NAME` that passed wrote `NAME.figures.json` there."""


PASSED: Final = "passed"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPart:
    """One command, and what it shows."""

    name: str
    shows: str
    command: tuple[str, ...]
    """Arguments of Python; `RESULT`, `MODELS` and `KEPT` in them are replaced."""
    needs_gpu: bool = False
    """Skipped by name where there is no GPU."""
    model: PublishedModel | None = None
    """One that must have been fetched; skipped by name where it has not been."""
    after: tuple[str, ...] = ()
    """Parts whose results it reads; they are run with it, and it is skipped by name if one did not pass."""


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
    def has_passed(self) -> bool:
        """Whether the part need not run again."""
        return self.status == PASSED

    @classmethod
    def path(cls, directory: Path, name: str) -> Path:
        """Return the file of a part's outcome."""
        return directory / f"{name}.json"
