"""Result format of all benchmarks."""

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from countdown.machine import machine, versions
from tlt_common.errors import ConfigError

UNREPEATED = ("--json", "--keep")
"""Options, each with a path, that say where outcomes go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Figures of one benchmark. A figure is the median over repeats; the spread is minimum and maximum."""

    name: str
    figures: Mapping[str, float]
    spread: Mapping[str, tuple[float, float]]
    repeats: int
    notes: Mapping[str, str]

    def as_json(self) -> str:
        """Return the result as one line of JSON."""
        rounded = {key: round(value, 4) for key, value in self.figures.items()}
        spread = {key: [round(low, 4), round(high, 4)] for key, (low, high) in self.spread.items()}
        return json.dumps(
            {
                "name": self.name,
                "command": command(sys.argv),
                "date": datetime.now(UTC).date().isoformat(),
                "figures": rounded,
                "spread": spread,
                "repeats": self.repeats,
                "machine": machine(),
                "versions": versions(),
                "notes": dict(self.notes),
            }
        )

    def write(self, target: str) -> None:
        """Write the result to a file, or to stdout if `target` is "-"."""
        if target == "-":
            sys.stdout.write(self.as_json() + "\n")
        else:
            Path(target).write_text(self.as_json() + "\n")


def command(arguments: Sequence[str]) -> str:
    """Return the command line that repeats a measurement: without the program's directory, --json and --keep."""
    kept, words = list[str](), iter(arguments[1:])
    for word in words:
        if word in UNREPEATED:
            next(words, None)
        elif word.partition("=")[0] not in UNREPEATED:
            kept.append(word)
    return shlex.join([Path(arguments[0]).name, *kept])


def check_target(target: str) -> None:
    """
    Check before a benchmark runs that its result can be written.

    Raises:
        ConfigError: The target is not writable.
    """
    directory = Path(target).parent
    if target != "-" and (Path(target).is_dir() or not os.access(directory, os.W_OK)):
        raise ConfigError(
            f"--json: {target} cannot be written; accepted: -, or a file in an existing directory", field="json"
        )
