"""Interface of the campaign's parts: a part receives a context and returns an outcome."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Size(StrEnum):
    """Duration of the campaign. The targets hold at every size, unless a figure states otherwise."""

    SHORT = "short"
    """For CI."""
    MIDDLE = "middle"
    """`make campaign`."""
    LONG = "long"

    @property
    def seconds(self) -> float:
        """Time of all parts together on 2 idle cores. Parts stop starting new work in time; they never cut work off."""
        return {Size.SHORT: 360.0, Size.MIDDLE: 600.0, Size.LONG: 3600.0}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Context of a part."""

    directory: Path
    """Empty directory of the part. It is kept if a target is missed or on request, and deleted otherwise."""
    seed: int
    """Seed from which, with the part's name, all random choices of a part derive."""
    deadline_s: float
    """When to stop starting new work, on the clock of `time.monotonic`."""
    size: Size
    say: Callable[[str], None]
    """Report progress, one line at a time."""

    @property
    def left_s(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self.deadline_s - time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of a part."""

    figures: Mapping[str, float] = field(default_factory=dict)
    """Figures by name. Those in `figures.SHARED` are combined over all parts; the others are printed as PART.NAME."""
    findings: tuple[str, ...] = ()
    """One sentence for each violation, precise enough to reproduce it; empty if there was none."""
    skipped: str = ""
    """Why the part did not run; empty if it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the campaign."""

    name: str
    summary: str
    """One-line description."""
    weight: float
    """Its share of the campaign's time, relative to the weights of the other parts."""
    run: Callable[[Context], Awaitable[Outcome]]
    """Run the part. Raises TltError if the part itself cannot run, which fails the campaign."""
