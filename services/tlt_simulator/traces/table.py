"""Rows of CSV files with column names chosen by others."""

import csv
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from tlt_simulator.traces.logfile import LogLine, lines
from tlt_simulator.traces.values import LineValues, name_of, refused

_WHOLE = re.compile(r"\d{1,15}(\.0+)?")
_SECONDS = re.compile(r"\d{1,15}(\.\d*)?")


def cells(line: LogLine) -> list[str]:
    """
    Return the values of a line.

    Raises:
        ConfigError: The line is not UTF-8 or not CSV.
    """
    try:
        text = line.text.decode()
        return next(csv.reader([text], strict=True)) if '"' in text else text.split(",")
    except UnicodeDecodeError as error:
        raise refused(line.place, "the line", f"is not UTF-8 at byte {error.start + 1}", "UTF-8") from None
    except csv.Error:
        raise refused(line.place, "the line", "is no CSV", "values between commas") from None


def columns(path: Path) -> list[str]:
    """
    Return the names in a file's first line.

    Raises:
        ConfigError: The file cannot be read or is empty.
    """
    for line in lines(path):
        return [cell.strip() for cell in cells(line)]
    raise refused(str(path), "it", "is empty", "a file with at least one response")


def rows(path: Path, needed: Collection[str]) -> Iterator[LineValues]:
    """
    Yield the rows as strings, by the names in the first line.

    Raises:
        ConfigError: A column is missing, or a row has a different number of values.
    """
    names = list[str]()
    for line in lines(path):
        values = [cell.strip() for cell in cells(line)]
        if not names:
            names = values
            if missing := [name for name in needed if name not in names]:
                known = ", ".join(map(name_of, names[:10]))
                raise refused(line.place, f"the column {missing[0]}", f"is missing among {known}", ", ".join(needed))
        elif len(values) != len(names):
            raise refused(
                line.place, "the line", f"has {len(values)} values", f"{len(names)}, as the first line has names"
            )
        else:
            yield LineValues(line.place, dict(zip(names, values, strict=True)))


def number_of(line: LineValues, field: str, *, most: int) -> int:
    """
    Return a whole number from text, which may be written as 12.0.

    Raises:
        ConfigError: The text is not a whole number.
    """
    text = line.text(field)
    if _WHOLE.fullmatch(text) and (value := int(text.partition(".")[0])) <= most:
        return value
    raise line.error(field, f"a whole number from 0 to {most}")


def seconds_of(text: str) -> float:
    """
    Return seconds from text.

    Raises:
        ValueError: The text is not a number of seconds.
    """
    if not _SECONDS.fullmatch(text):
        raise ValueError(text)
    return float(text)
