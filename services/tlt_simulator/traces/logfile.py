"""Log files: selection in a directory, and reading of lines."""

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, cast

from tlt_common.errors import ConfigError
from tlt_simulator.traces.values import LineValues, refused

MAX_LINE_BYTES = 64 * 2**20
"""A response of a million tokens with its token ids and probabilities is shorter."""
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
PACKED = (".gz", ".zst")
"""Suffixes behind the one that counts."""
MARK = b"\xef\xbb\xbf"
"""Byte order mark of UTF-8, which Windows writes at the beginning of a file."""
OTHER_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""The same of UTF-16."""
MAX_WINDOW_BYTES = 2**27
"""Of Zstandard: what its highest ordinary level uses."""
MAX_EMPTY_LINES = 2**20
"""A few megabytes of gzip can stand for billions."""
PIECE_BYTES = 2**20
FED_BYTES = 2048
"""Of Zstandard at a time: 4 bytes can stand for 128 KiB."""
SHOWN_NAMES = 5


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line without its end."""

    place: str
    """FILE:NUMBER."""
    text: bytes
    is_cut: bool
    """Whether the file ends within the line."""


def lines(path: Path) -> Iterator[LogLine]:
    """
    Yield the non-empty lines of a file. Accepts gzip, CRLF and a byte order mark.

    Raises:
        ConfigError: The file cannot be read, is damaged, has a line of more than `MAX_LINE_BYTES`, or more than
            `MAX_EMPTY_LINES` consecutive empty ones.
    """
    number = empty = 0
    with opened(path) as stream:
        while line := _next(stream, path, number + 1):
            number += 1
            place = f"{path}:{number}"
            if number == 1:
                if line.startswith(OTHER_MARKS):
                    raise refused(place, "the encoding", "is UTF-16", "UTF-8")
                line = line.removeprefix(MARK)
            if len(line) > MAX_LINE_BYTES:
                raise refused(place, "the line", f"has more than {MAX_LINE_BYTES >> 20} MiB", "shorter lines")
            empty += 1
            if empty > MAX_EMPTY_LINES:
                raise refused(place, "the line", f"follows {MAX_EMPTY_LINES} empty ones", "lines with responses")
            if text := line.strip():
                empty = 0
                yield LogLine(place, text, is_cut=not line.endswith(b"\n"))


def objects(path: Path) -> Iterator[LineValues]:
    """
    Yield the JSON object of each line.

    Raises:
        ConfigError: The file cannot be read, or a line is not an object.
    """
    for line in lines(path):
        yield LineValues.of(line.place, line.text, is_cut=line.is_cut)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """
    Open a file, possibly compressed with gzip or Zstandard, within the block.

    Raises:
        ConfigError: The file cannot be read.
    """
    try:
        if not path.is_file():
            raise refused(str(path), "it", "is missing" if not path.exists() else "is not a file", "a file")
        stream = path.open("rb")
    except OSError as error:
        raise refused(str(path), "it", f"cannot be read: {error.strerror}", "a file that can") from error
    with stream:
        begins = stream.read(len(ZSTD))
        stream.seek(0)
        if begins.startswith(GZIP):
            yield cast("BinaryIO", gzip.GzipFile(fileobj=stream))
        elif begins == ZSTD:
            yield _unpacked(stream)
        else:
            yield stream


def _unpacked(stream: BinaryIO) -> BinaryIO:
    """
    Raises:
        ConfigError: The package for Zstandard is missing.
    """
    try:
        from zstandard import ZstdDecompressor
    except ImportError as error:
        raise ConfigError(
            "logs compressed with Zstandard need the package zstandard; accepted: pip install zstandard",
            field="trace",
        ) from error
    decompressor = ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    return io.BufferedReader(_ZstdFile(stream, decompressor.decompressobj), PIECE_BYTES)


class _ZstdFile(io.RawIOBase):
    """Decompressed content of Zstandard frames. Like gzip's, raises an error if it is truncated or damaged."""

    def __init__(self, stream: BinaryIO, frame: Callable[[], Any]) -> None:
        self._stream, self._next_frame = stream, frame
        self._frame: Any = None
        self._packed = self._plain = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._plain:
            self._packed = self._packed or self._stream.read(FED_BYTES)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("the last frame is truncated")
                return 0
            self._plain = self._unpack()
        count = min(len(buffer), len(self._plain))
        buffer[:count], self._plain = self._plain[:count], self._plain[count:]
        return count

    def _unpack(self) -> bytes:
        from zstandard import ZstdError

        frame = self._frame = self._frame or self._next_frame()
        try:
            plain: bytes = frame.decompress(self._packed)
        except ZstdError as error:
            raise EOFError(str(error)) from error
        self._packed, self._frame = (frame.unused_data, None) if frame.eof else (b"", frame)
        return plain


def _next(stream: BinaryIO, path: Path, number: int) -> bytes:
    try:
        return stream.readline(MAX_LINE_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise refused(f"{path}:{number}", "the file", "is cut or damaged", "a whole compressed file") from error
    except OSError as error:
        raise refused(str(path), "it", f"cannot be read: {error.strerror}", "a file that can") from error


def children(directory: Path, *, folders: bool = False) -> list[Path]:
    """
    Return the visible files or folders of a directory, ordered by the numbers in their names.

    Raises:
        ConfigError: The directory cannot be read.
    """
    try:
        every = [path for path in directory.iterdir() if not path.name.startswith(".")]
        found = [path for path in every if (path.is_dir() if folders else path.is_file())]
    except OSError as error:
        raise refused(str(directory), "it", f"cannot be read: {error.strerror}", "a directory that can") from error
    return sorted(found, key=lambda path: (_by_numbers(stem(path)), path.name))


def suffix(path: Path) -> str:
    """Return the suffix of a file's name without the compression suffix, in lower case."""
    return Path(_unpacked_name(path)).suffix


def stem(path: Path) -> str:
    """Return the name of a file without its suffix and compression suffix."""
    return path.name[: len(_unpacked_name(path)) - len(suffix(path))]


def _unpacked_name(path: Path) -> str:
    name = path.name.lower()
    return next((name.removesuffix(end) for end in PACKED if name.endswith(end)), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNames:
    """Names of a form's files in a directory."""

    suffixes: tuple[str, ...]
    pattern: str = ".*"
    """Regular expression for names without suffix."""
    called: str = ""
    """Description of the names."""
    others: str = "(?!)"
    """Regular expression for expected files with that suffix that are not read."""

    def first_of(self, directory: Path) -> Path | None:
        """Return the first file with such a name."""
        return next((path for path in self._of_suffix(directory) if re.fullmatch(self.pattern, stem(path))), None)

    def chosen(self, path: Path, note: Callable[[str], None]) -> list[Path]:
        """
        Return the file itself, or the files to read in a directory, in order. `note` is called with each omission.

        Raises:
            ConfigError: There is no such file, or a file with such a suffix has another name.
        """
        if not path.is_dir():
            return [path]
        found = [one for one in self._of_suffix(path) if not re.fullmatch(self.others, stem(one))]
        for one in found:
            if not re.fullmatch(self.pattern, stem(one), re.ASCII):
                raise refused(str(one), "the name", "is none of such a log", self.called)
        if not found:
            raise refused(str(path), "it", "has no file of this form", self.called)
        for before, after in pairwise(found):
            if _by_numbers(stem(before)) == _by_numbers(stem(after)):
                raise refused(str(after), "the name", f"has the number of {before.name}", f"{self.called}, each once")
        if others := [one.name for one in children(path) if one not in found]:
            more = f" and {len(others) - SHOWN_NAMES} more" if len(others) > SHOWN_NAMES else ""
            note(f"files that were left out: {', '.join(others[:SHOWN_NAMES])}{more}")
        return found

    def _of_suffix(self, directory: Path) -> list[Path]:
        return [path for path in children(directory) if suffix(path) in self.suffixes]


def _by_numbers(name: str) -> list[tuple[int, str]]:
    """Return a key that orders step2 before step10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name) if part]
