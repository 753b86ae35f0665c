"""Fields of a journal's lines: validation and encoding. Pure."""

from typing import Annotated, ClassVar, TypeAlias

from pydantic import ConfigDict, Field, PlainSerializer

MAX_TIME_S = 1e11
"""Later than any Unix time that a clock shows."""
MAX_COUNT = 2**53
MAX_TEXT = 1000
"""Characters of a name or a version."""


class FieldError(ValueError):
    """A value is not accepted."""

    def __init__(self, field: str, value: object, accepted: str) -> None:
        super().__init__(field)
        self.field = field
        self.value = value
        self.accepted = accepted


class JournalRecord:
    """
    Base class of records: frozen dataclasses that pydantic reads and writes. Only reading validates: a service with an
    impossible value to record must keep running.
    """

    __pydantic_config__: ClassVar = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def _rounded(digits: int) -> PlainSerializer:
    return PlainSerializer(lambda value: round(value, digits), return_type=float)


# What UTF-8 cannot say, such as half of a character in a name, is replaced: it would end the journal.
_cut = PlainSerializer(lambda value: value[:MAX_TEXT].encode(errors="replace").decode(), return_type=str)

Time: TypeAlias = Annotated[float, Field(ge=0, le=MAX_TIME_S), _rounded(3)]
"""Unix time, on the clock that the header names."""
Seconds: TypeAlias = Annotated[float, Field(ge=0, le=MAX_TIME_S), _rounded(6)]
Ratio: TypeAlias = Annotated[float, Field(ge=0, le=MAX_TIME_S), _rounded(6)]
Signed: TypeAlias = Annotated[float, Field(ge=-MAX_TIME_S, le=MAX_TIME_S), _rounded(9)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1), _rounded(6)]
Count: TypeAlias = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Positive: TypeAlias = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=MAX_TEXT), _cut]
Note: TypeAlias = Annotated[str, Field(max_length=MAX_TEXT), _cut]
