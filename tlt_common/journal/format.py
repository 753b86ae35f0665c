"""
Format of journals: JSON lines, of which the first of every file is a header.

    {"format": "tlt-journal/1", "service": "gateway", "id": "gateway-0", "began": 1767225600.0, "part": 1, "suite": ...}
    {"kind": "pause", "at": 1767225642.118, "paused": true}

Times are Unix times by the clock that the header names. A run of a service writes one file after the other, with the
same `began` and the next `part`. Pure.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from functools import cache
from typing import Any, Final, Self

from pydantic import TypeAdapter, ValidationError, model_validator

from tlt_common.errors import ConfigError
from tlt_common.journal.coordinator_lines import CoordinatorLine
from tlt_common.journal.fields import FieldError, JournalRecord, Name, Positive, Time
from tlt_common.journal.gateway_lines import GatewayLine
from tlt_common.journal.line import Line

FORMAT: Final = "tlt-journal/1"
CLOCK: Final = "Unix time when the run began, advanced by a monotonic clock"
SERVICES: Final[Mapping[str, Any]] = {"gateway": GatewayLine, "coordinator": CoordinatorLine}
"""Services that write journals, and their lines."""
SHOWN = 60
"""Characters of a value in an error."""
_OPENING = re.compile(r"^\w+ should (be|have) ")
"""What is before the accepted values in pydantic's messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header(JournalRecord):
    """The first line of a file, written with FORMAT before these fields and CLOCK after them."""

    service: Name
    id: Name
    """Id of the service: a gateway_id, or the name of a pod."""
    began: Time
    """Unix time at which the service's run began."""
    part: Positive
    """Number of the file within the run."""
    suite: Name
    """Version of the suite."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.service not in SERVICES:
            raise FieldError("service", self.service, ", ".join(SERVICES))
        return self


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the reader and writer of a kind, created on first use: commands import this module for --help."""
    return TypeAdapter(kind)


def header_line(header: Header) -> bytes:
    """Return the line of a header."""
    values = {"format": FORMAT, **_adapter(Header).dump_python(header), "clock": CLOCK}
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


def line_of(line: Line) -> bytes:
    """Return a line with its line ending."""
    kind: Any = type(line)
    return _adapter(kind).dump_json(line) + b"\n"


def parsed_header(where: str, line: bytes) -> Header:
    """
    Parse the header of a file.

    Raises:
        ConfigError: The line is not a header or has another version; the message names `where`, the field and what is
            accepted.
    """
    try:
        values = _adapter(dict[str, Any]).validate_json(line)
        for field, accepted in (("format", FORMAT), ("clock", CLOCK)):
            if (value := values.pop(field, MISSING)) != accepted:
                raise refused(where, FieldError(field, value, accepted))
        header: Header = _adapter(Header).validate_json(json.dumps(values))
    except ValidationError as error:
        raise _explained(where, error) from None
    return header


def parsed(where: str, line: bytes, *, service: str) -> Line:
    """
    Parse a line of a service.

    Raises:
        ConfigError: The line is invalid; the message names `where`, the field and what is accepted.
    """
    try:
        found: Line = _adapter(SERVICES[service]).validate_json(line)
    except ValidationError as error:
        raise _explained(where, error, outer=1) from None
    return found


def refused(where: str, error: FieldError) -> ConfigError:
    """Return the error for a field at a location."""
    problem = "is missing" if error.value is MISSING else f"is {error.value!r:.{SHOWN}}"
    return ConfigError(f"{where}: {error.field} {problem}; accepted: {error.accepted}", field="journal")


def _explained(where: str, error: ValidationError, *, outer: int = 0) -> ConfigError:
    """Return the first error of a line, without the outer parts of its location, such as the kind."""
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    path = [f"[{part}]" if isinstance(part, int) else part for part in first["loc"][outer:]]
    value, accepted = first["input"], _OPENING.sub("", first["msg"])
    match first["type"]:
        case "union_tag_invalid":
            path, value, accepted = ["kind"], context["tag"], context["expected_tags"]
        case "union_tag_not_found":
            path, value, accepted = ["kind"], MISSING, "all fields of a line"
        case "missing":
            value, accepted = MISSING, "all fields of a line"
        case "unexpected_keyword_argument":
            accepted = "no field of this name"
        case "value_error":
            inner: FieldError = context["error"]
            path, value, accepted = [*path, inner.field], inner.value, inner.accepted
    if path:
        return refused(where, FieldError(".".join(path), value, accepted))
    reason = context.get("error", "not an object")
    return ConfigError(f"{where}: {reason}; accepted: one JSON object per line", field="journal")
