"""The document `tlt-timeline/1`, drawn by the page, the demo's report and simulations."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tlt_common.domain.fleet import WorkerState
from tlt_common.timeline.track import Window

FORMAT: Literal["tlt-timeline/1"] = "tlt-timeline/1"
STATES = tuple(WorkerState)
"""States are numbered by their place here."""
MAX_COLUMNS = 4096
MAX_LANES = 512
"""Workers up to which each has a lane."""


class TimelinePart(BaseModel):
    """A part of the document."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LaneRow(TimelinePart):
    """Row of one worker."""

    label: str
    devices: int = Field(ge=1)
    runs: list[tuple[Annotated[int, Field(ge=-1)], Annotated[int, Field(ge=1)]]]
    """Pairs of state and number of columns; -1 for unknown. They add up to the document's columns."""


class BandRow(TimelinePart):
    """Row of several workers, in order of their ids."""

    label: str
    workers: int = Field(ge=1)
    shares: dict[int, list[Annotated[int, Field(ge=0, le=100)]]]
    """
    Share of the workers' time by state for each column, in percent. Only occurring states are listed. Apart from
    rounding, the rest to 100 is unknown.
    """
    exact: bool = True
    """Whether all changes of state were counted; otherwise states were sampled."""


class TimelineMark(TimelinePart):
    """A marked moment."""

    at_unix_s: float
    kind: Literal["step", "publication", "update"]
    label: str


class TimelineHead(TimelinePart):
    """The document without rows."""

    format: Literal["tlt-timeline/1"] = FORMAT
    from_unix_s: float
    to_unix_s: float
    column_s: float = Field(gt=0)
    columns: int = Field(ge=1, le=MAX_COLUMNS)
    states: list[str]
    """Names of the states, in the order of their numbers."""
    kind: Literal["lanes", "bands"]
    workers: int = Field(ge=0)
    """Number of workers that can be shown."""
    first: int = Field(ge=0)
    """Index of the first shown worker."""
    marks: list[TimelineMark]
    """Marks in order of time."""


class TimelineDocument(TimelineHead):
    """A timeline."""

    rows: list[LaneRow] | list[BandRow]


def head_of(
    window: Window,
    *,
    kind: Literal["lanes", "bands"],
    workers: int,
    first: int = 0,
    marks: Iterable[TimelineMark] = (),
) -> TimelineHead:
    """Return the document without its rows."""
    return TimelineHead(
        from_unix_s=window.from_s,
        to_unix_s=window.to_s,
        column_s=window.column_s,
        columns=window.columns,
        states=[state.value for state in STATES],
        kind=kind,
        workers=workers,
        first=first,
        marks=list(marks),
    )


def document_of(head: TimelineHead, rows: Iterable[LaneRow | BandRow | None]) -> TimelineDocument:
    """Return the whole document, for callers that need not yield to other work."""
    return TimelineDocument.model_validate(
        head.model_dump() | {"rows": [row.model_dump() for row in rows if row is not None]}
    )
