"""Lines of a journal: one JSON object each. Pure."""

from dataclasses import dataclass
from typing import Literal

from tlt_common.journal.fields import FieldError, JournalRecord, Positive, Time


@dataclass(frozen=True, slots=True, kw_only=True)
class Line(JournalRecord):
    """An event with its time."""

    kind: str
    """Kind of the event."""
    at: Time
    """Time of writing, after the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedLine(Line):
    """Lines that were not written because the disk was too slow."""

    kind: Literal["dropped"] = "dropped"

    lines: Positive


def at_most(field: str, value: float, other: str, limit: float) -> None:
    """
    Check that a field is at most another one.

    Raises:
        FieldError: It is greater.
    """
    if value > limit:
        raise FieldError(field, value, f"at most {other}, which is {limit!r}")
