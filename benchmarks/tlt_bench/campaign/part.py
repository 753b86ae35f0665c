"""What a part of the campaign is: it receives a context and returns an outcome."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Size(StrEnum):
    """How long the campaign runs. The aims hold at every size, except where a figure says otherwise."""

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
    """What a part may use."""

    directory: Path
    """Empty directory of the part. It is kept if an aim is missed or the user asks for it, and deleted otherwise."""
    seed: int
    """Everything that a part draws at random is drawn from this seed and the part's own name."""
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
    """By name. Those in `figures.SHARED` are combined over all parts; the others are printed as PART.NAME."""
    findings: tuple[str, ...] = ()
    """One sentence for each violation, precise enough to reproduce it; empty if there was none."""
    skipped: str = ""
    """Why the part did not run; empty if it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the campaign."""

    name: str
    summary: str
    """What it does, in one line."""
    weight: float
    """Its share of the campaign's time, relative to the weights of the other parts."""
    run: Callable[[Context], Awaitable[Outcome]]
    """Run the part. Raises TltError if the part itself cannot run, which fails the campaign."""
