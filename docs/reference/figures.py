"""
Renders measured figures into pages.

A figure of a run is in `docs/results/data/NAME.json`, which is what `tlt bench ... --json` writes, and nowhere else. A
page names it in a comment behind the number, which is then written by `make generate`, with as many decimals as before:

    steps are 1.89 [1.48, 2.37]<!-- figure demo-epyc: step_speedup --> times as fast

A number with a spread in brackets gets one, a number with % is a share, and `1 to 2` spans the values of all runs that
are named (a pattern such as `demo-*`, or names with commas), or the spread of one with the word `spread` behind the
figure. In a table that follows `<!-- figures RUN, RUN -->`, the last columns are these runs, and each row's first cell
says which figures its numbers are, in order: `accept_length_first`, `_last`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path

DATA = Path(__file__).parents[1] / "results/data"
NUMBER = r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?"
SHOWN = rf"{NUMBER}(?: to {NUMBER}| \[{NUMBER}, {NUMBER}\])?(?: ?%)?"
MARK = re.compile(rf"(?P<shown>{SHOWN})<!-- figure (?P<runs>[\w*,-]+): (?P<figure>[\w-]+)(?P<spread> spread)? -->")
ANY_MARK = re.compile(r"<!-- figure .*?-->")
TABLE = re.compile(r"<!-- figures (?P<runs>[\w, -]+) -->\n\n?(?P<table>(?:\|.*\n?)+)")
IN_CELL = re.compile(rf"(?<![\w`.-])(?:{SHOWN}|-(?= |,))(?![\w`])")
"""A figure in a table, or the dash of one that a run does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one run of a benchmark measured, and what that stands on."""

    name: str
    command: str
    machine: str
    commit: str
    date: str
    figures: Mapping[str, float]
    spread: Mapping[str, tuple[float, float]]
    served: str


@cache
def runs() -> Mapping[str, Measured]:
    """Return all runs by the name of their file."""
    return {path.stem: _read(path) for path in sorted(DATA.glob("*.json"))}


def _read(path: Path) -> Measured:
    found = json.loads(path.read_text())
    return Measured(
        name=path.stem,
        command=found["command"],
        machine=found["machine"],
        commit=found["versions"]["commit"],
        date=found["date"],
        figures=found["figures"],
        spread={name: (low, high) for name, (low, high) in found["spread"].items()},
        served=found["notes"].get("served", ""),
    )


def rendered(page: str) -> str:
    """
    Return the page with every marked figure as the runs have it.

    Raises:
        ValueError: A mark follows no number or is malformed, names a run or a figure that does not exist, or a row of
            a table has more or fewer numbers than figures.
    """
    if lost := len(ANY_MARK.findall(page)) - len(MARK.findall(page)):
        raise ValueError(f"{lost} marks of figures are malformed or do not directly follow a number")
    return TABLE.sub(_table, MARK.sub(_one, page))


def _one(mark: re.Match[str]) -> str:
    found = _named(mark["runs"], mark["figure"])
    return _shown(mark["shown"], found, mark["figure"], is_spread=bool(mark["spread"])) + mark[0][len(mark["shown"]) :]


def _named(named: str, figure: str) -> Sequence[Measured]:
    patterns = [pattern.strip() for pattern in named.split(",")]
    if unknown := [each for each in patterns if not any(fnmatchcase(name, each) for name in runs())]:
        raise ValueError(f"there is no run {', '.join(unknown)}; runs: {', '.join(runs())}")
    found = [
        run
        for name, run in runs().items()
        if figure in run.figures and any(fnmatchcase(name, pattern) for pattern in patterns)
    ]
    if not found:
        raise ValueError(f"no run {named} has a figure {figure}")
    return found


def _shown(before: str, found: Sequence[Measured], figure: str, *, is_spread: bool = False) -> str:
    """Return a figure in the form, and with the decimals, in which it was shown."""
    sample = re.match(NUMBER, before)
    assert sample  # noqa: S101 - of SHOWN
    unit = before[len(before.rstrip(" %")) :]
    digits = len(sample[0].partition("e")[0].partition(".")[2])

    def text(value: float) -> str:
        scaled = value * (100 if unit else 1)
        if "e" not in sample[0]:
            return f"{scaled:,.{digits}f}"
        mantissa, _, power = f"{scaled:.{digits}e}".partition("e")
        return f"{mantissa}e{int(power)}"

    values = [run.figures[figure] for run in found]
    if " to " in before:
        low, high = found[0].spread[figure] if is_spread else (min(values), max(values))
        return f"{text(low)} to {text(high)}{unit}"
    if len(found) > 1:
        raise ValueError(f"{figure} of {', '.join(run.name for run in found)} is shown as one number")
    if "[" in before:
        low, high = found[0].spread[figure]
        return f"{text(values[0])} [{text(low)}, {text(high)}]{unit}"
    return f"{text(values[0])}{unit}"


def _table(mark: re.Match[str]) -> str:
    named = [name.strip() for name in mark["runs"].split(",")]
    lines = mark["table"].splitlines(keepends=True)
    made = lines[:2] + [_row(line, named) for line in lines[2:]]
    return mark[0][: -len(mark["table"])] + "".join(made)


def _row(line: str, named: Sequence[str]) -> str:
    """Return a row; numbers behind those of its figures explain them, and stay."""
    cells = line.split(" | ")
    figures = _figures(cells[0])
    for place, name in enumerate(named, len(cells) - len(named)):
        shown = IN_CELL.findall(cells[place])
        if shown == ["-"]:
            continue
        if 0 < len(shown) < len(figures):
            raise ValueError(f"a row of {len(figures)} figures shows {len(shown)} numbers: {line.strip()}")
        cells[place] = IN_CELL.sub(partial(_in_cell, name=name, wanted=iter(figures)), cells[place])
    return " | ".join(cells)


def _in_cell(before: re.Match[str], *, name: str, wanted: Iterator[str]) -> str:
    figure = next(wanted, None)
    return before[0] if figure is None or before[0] == "-" else _shown(before[0], _named(name, figure), figure)


def _figures(cell: str) -> Sequence[str]:
    """Return the figures that a cell names; `_last` behind `accept_length_first` is `accept_length_last`."""
    names: list[str] = []
    for name in re.findall(r"`([\w-]+)`", cell):
        names.append(names[0].rsplit("_", name.count("_"))[0] + name if name.startswith("_") and names else name)
    return names


def sources() -> str:
    """Return a table of all runs: what was run, when, where, and from which commit."""
    head = "| run | command | date | commit | machine |\n| --- | --- | --- | --- | --- |\n"
    rows = (
        f"| `{run.name}` | `{run.command}` | {run.date} | `{run.commit}` | {run.machine} |" for run in runs().values()
    )
    return head + "\n".join(rows) + "\n"
