"""Lines of a journal: one JSON object each. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tlt_common.journal.fields import FieldError, JournalRecord, Positive, Time


@dataclass(frozen=True, slots=True, kw_only=True)
class Line(JournalRecord):
    """
    What happened, and when.

    Attributes:
        kind: Name of what happened.
    """

    kind: ClassVar[str] = ""
    omitted: ClassVar[frozenset[str]] = frozenset({"kind"})

    at: Time
    """When it was written down: what a line tells is over by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedLine(Line):
    """Lines that were not written, since the disk was too slow."""

    kind: ClassVar[str] = "dropped"

    lines: Positive


def kinds(root: type[Line] = Line) -> Iterator[type[Line]]:
    """Yield all kinds of lines that were imported."""
    for kind in root.__subclasses__():
        if kind.kind:
            yield kind
        yield from kinds(kind)


def at_most(field: str, value: float, other: str, limit: float) -> None:
    """
    Check that a field is not greater than another.

    Raises:
        FieldError: It is.
    """
    if value > limit:
        raise FieldError(field, value, f"at most {other}, which is {limit!r}")
