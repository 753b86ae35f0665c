"""What forms with one JSON object per line have in common."""

from collections.abc import Iterator
from pathlib import Path

from tlt_simulator.traces.logfile import lines
from tlt_simulator.traces.values import LineValues


def objects(path: Path) -> Iterator[LineValues]:
    """
    Yield the object of each line.

    Raises:
        ConfigError: The file cannot be read, or a line is no object.
    """
    for line in lines(path):
        yield LineValues.of(line.place, line.text, is_cut=line.is_cut)
