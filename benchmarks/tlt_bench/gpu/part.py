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
    """One command and its purpose."""

    name: str
    shows: str
    command: tuple[str, ...]
    """Arguments of Python; `RESULT`, `MODELS` and `KEPT` in them are replaced."""
    needs_gpu: bool = False
    """Whether it is skipped by name without a GPU."""
    model: PublishedModel | None = None
    """A model that must have been fetched; the part is skipped by name otherwise."""
    after: tuple[str, ...] = ()
    """Parts whose results it reads. They are run with it, and it is skipped by name if one of them did not pass."""


class GpuOutcome(Frozen):
    """Outcome of a part."""

    name: str
    shows: str
    command: str
    seconds: float
    status: str
    """`passed`, `failed`, `timed out` or `skipped: REASON`."""
    figures: dict[str, float] = Field(default_factory=dict)
    """Figures printed by the command."""
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
