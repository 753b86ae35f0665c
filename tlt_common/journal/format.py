"""
Format of journals: JSON lines, of which the first of every file is a header.

    {"format": "tlt-journal/1", "service": "gateway", "id": "gateway-0", "began": 1767225600.0, "part": 1, "suite": ...}
    {"kind": "pause", "at": 1767225642.118, "paused": true}

Times are Unix times by the clock that the header names. A run of a service writes one file after the other, with the
same `began` and the next `part`. Pure.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Annotated, Any, ClassVar, Final

from tlt_common.documents import json_of
from tlt_common.errors import ConfigError
from tlt_common.journal import coordinator_lines, gateway_lines
from tlt_common.journal.fields import FieldError, JournalRecord, Name, Positive, ShortText, Time
from tlt_common.journal.line import DroppedLine, Line, kinds

FORMAT: Final = "tlt-journal/1"
CLOCK: Final = "Unix time when the run began, advanced by a monotonic clock"
SERVICES: Final = {"gateway": gateway_lines.__name__, "coordinator": coordinator_lines.__name__}
"""Services that write journals, and the modules of their lines."""
SHOWN = 60
"""Characters of a value in an error."""

KINDS: Final[Mapping[str, type[Line]]] = {kind.kind: kind for kind in kinds()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Header(JournalRecord):
    """The first line of a file."""

    omitted: ClassVar[frozenset[str]] = frozenset({"format"})

    service: Name
    id: Name
    """Of the service: a gateway_id, or the name of a pod."""
    began: Time
    """When the run of the service began."""
    part: Positive
    """Number of the file in this run."""
    suite: Name
    """Version of the suite."""
    clock: Annotated[str, ShortText()] = CLOCK

    def check(self) -> None:
        if self.service not in SERVICES:
            raise FieldError("service", self.service, ", ".join(SERVICES))
        if self.clock != CLOCK:
            raise FieldError("clock", self.clock, CLOCK)


def header_line(header: Header) -> bytes:
    """Return the line of a header."""
    return _encoded({"format": FORMAT, **header.to_values()})


def line_of(line: Line) -> bytes:
    """Return a line, with its end."""
    return _encoded({"kind": line.kind, **line.to_values()})


def parsed_header(where: str, line: bytes) -> Header:
    """
    Parse the header of a file.

    Raises:
        ConfigError: It is none, or of another version; names `where`, the field and what is accepted.
    """
    values = _object(where, line)
    if values.get("format") != FORMAT:
        raise refused(where, FieldError("format", values.get("format", MISSING), FORMAT))
    try:
        return Header.from_values(values)
    except FieldError as error:
        raise refused(where, error) from None


def parsed(where: str, line: bytes, *, service: str) -> Line:
    """
    Parse a line of a service.

    Raises:
        ConfigError: It is none; names `where`, the field and what is accepted.
    """
    values = _object(where, line)
    try:
        return _kind(values.get("kind", MISSING), service).from_values(values)
    except FieldError as error:
        raise refused(where, error) from None


def refused(where: str, error: FieldError) -> ConfigError:
    """Return the error of a field at a place."""
    problem = "is missing" if error.value is MISSING else f"is {error.value!r:.{SHOWN}}"
    return ConfigError(f"{where}: {error.field} {problem}; accepted: {error.accepted}", field="journal")


def _kind(name: object, service: str) -> type[Line]:
    """
    Return a kind of line that a service writes.

    Raises:
        FieldError: It writes none of this name.
    """
    known = {one: kind for one, kind in KINDS.items() if service in _writers(kind)}
    if isinstance(name, str) and name in known:
        return known[name]
    raise FieldError("kind", name, ", ".join(sorted(known)))


def _writers(kind: type[Line]) -> tuple[str, ...]:
    """Return the services that write a kind of line."""
    if kind is DroppedLine:
        return tuple(SERVICES)
    return tuple(service for service, module in SERVICES.items() if kind.__module__ == module)


def _object(where: str, line: bytes) -> dict[str, Any]:
    try:
        values = json_of(line)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}; accepted: one JSON object per line", field="journal") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: a {type(values).__name__}; accepted: one JSON object per line", field="journal")
    return values


def _encoded(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"
