"""Lines of a journal: one JSON object each. Pure."""

from dataclasses import dataclass
from typing import Literal

from tlt_common.journal.fields import FieldError, JournalRecord, Positive, Time


@dataclass(frozen=True, slots=True, kw_only=True)
class Line(JournalRecord):
    """What happened, and when."""

    kind: str
    """Name of what happened."""
    at: Time
    """When it was written down: what a line tells is over by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedLine(Line):
    """Lines that were not written, since the disk was too slow."""

    kind: Literal["dropped"] = "dropped"

    lines: Positive


def at_most(field: str, value: float, other: str, limit: float) -> None:
    """
    Check that a field is not greater than another.

    Raises:
        FieldError: It is.
    """
    if value > limit:
        raise FieldError(field, value, f"at most {other}, which is {limit!r}")
