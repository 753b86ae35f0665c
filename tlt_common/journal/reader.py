"""
Reads and validates journals.

A journal is refused, by file, line and field, if a line does not belong to its service, files are mixed or missing, or
times are impossible. A truncated line at the end of the last file, as a crash leaves it, is omitted and reported in
`cut`.
"""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from tlt_common.errors import ConfigError
from tlt_common.journal.fields import FieldError
from tlt_common.journal.files import JournalFile, files_in
from tlt_common.journal.format import Header, parsed, parsed_header, refused
from tlt_common.journal.line import Line

NOISE_S = 1.0
"""Seconds by which lines of a run may be out of order."""
RESET_S = 60.0
"""Seconds by which a clock may have been set back between two runs."""


class JournalReader:
    """
    The journal of one service.

    Attributes:
        cut: Location of a truncated last line, once read; empty if there is none.
        size_bytes: Number of bytes read.
    """

    def __init__(self, files: tuple[JournalFile, ...]) -> None:
        """Create the reader from the files of one service and id, in order."""
        self.files = files
        self.service, self.id = files[0].service, files[0].id
        self.cut = ""
        self.size_bytes = 0
        self._run: Header | None = None
        self._latest_s = 0.0

    def lines(self) -> Iterator[Header | Line]:
        """
        Yield all lines in order, each run preceded by its header.

        Raises:
            ConfigError: The journal is invalid; the message names file, line and field, and what is accepted.
        """
        self.cut, self.size_bytes, self._run, self._latest_s = "", 0, None, 0.0
        for file in self.files:
            yield from self._lines_of(file)

    def _lines_of(self, file: JournalFile) -> Iterator[Header | Line]:
        where, line = f"{file.path}:1", b""
        try:
            with file.path.open("rb") as stream:
                for number, line in enumerate(stream, start=1):
                    where = f"{file.path}:{number}"
                    self.size_bytes += len(line)
                    if not line.endswith(b"\n"):
                        break
                    if number > 1:
                        yield self._checked(where, line)
                    elif (begun := self._begun(where, line)) is not None:
                        yield begun
        except OSError as error:
            raise ConfigError(f"{file.path} cannot be read: {error.strerror}", field="journal") from error
        if not line.endswith(b"\n"):
            self._note_cut(file, where)

    def _note_cut(self, file: JournalFile, where: str) -> None:
        if file is not self.files[-1]:
            raise ConfigError(
                f"{where}: the line is cut; accepted: whole lines, but for the end of the last file", field="journal"
            )
        self.cut = where

    def _begun(self, where: str, line: bytes) -> Header | None:
        """Check the header of the next file; return it if a new run begins."""
        header, run = parsed_header(where, line), self._run
        try:
            self._require_own(header)
            if run is not None:
                _require_next(header, run, self._latest_s)
        except FieldError as error:
            raise refused(where, error) from None
        self._run = header
        if run is not None and run.began == header.began:
            return None
        self._latest_s = header.began
        return header

    def _require_own(self, header: Header) -> None:
        for field, found, named in (("service", header.service, self.service), ("id", header.id, self.id)):
            if found != named:
                raise FieldError(field, found, f"{named!r}, as in the name of the file")

    def _checked(self, where: str, text: bytes) -> Line:
        line = parsed(where, text, service=self.service)
        if line.at < self._latest_s - NOISE_S:
            error = FieldError("at", line.at, f"at least {self._latest_s}, as late as what is before it")
            raise refused(where, error)
        self._latest_s = max(self._latest_s, line.at)
        return line


def _require_next(header: Header, run: Header, latest_s: float) -> None:
    """
    Check that the header of a file continues the run of the previous file, or starts a later one.

    Raises:
        FieldError: It does neither.
    """
    is_same = header.began == run.began
    if header.part != (expected := run.part + 1 if is_same else 1):
        raise FieldError("part", header.part, f"{expected}, the next file of the run that began at {header.began}")
    if is_same and header.suite != run.suite:
        raise FieldError("suite", header.suite, f"{run.suite!r}, as in the file before it")
    if not is_same and header.began < latest_s - RESET_S:
        raise FieldError("began", header.began, f"at least {latest_s}, as late as the run before it")


def journals_in(directory: Path) -> tuple[JournalReader, ...]:
    """
    Return the journals in a directory, one per service and id.

    Raises:
        ConfigError: The directory cannot be read, or has no journal.
    """
    files = files_in(directory)
    if not files:
        raise ConfigError(
            f"{directory} has no journal; accepted: the directory that a gateway or coordinator has as `journal`",
            field="journal",
        )
    return tuple(JournalReader(tuple(ones)) for _, ones in groupby(files, key=lambda file: (file.service, file.id)))
