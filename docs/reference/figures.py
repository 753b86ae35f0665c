"""
Renders measured figures into pages.

A figure of a run is in `docs/results/data/NAME.json`, which is what `tlt bench ... --json` writes, and nowhere else. A
page names it in a comment behind the number, which is then written by `make generate`:

    steps are 1.89 [1.48, 2.37]<!-- figure demo-epyc: step_speedup spread --> times as fast

A comment holds one or several runs (a pattern such as `demo-*`, or names with commas), a figure, and words that say how
it is shown: `spread` adds minimum and maximum, `range` goes from the least to the greatest value of all the runs,
`low-high` shows minimum and maximum alone; `%` shows a percentage, and a number the decimals (2 otherwise).
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

DATA = Path(__file__).parents[1] / "results/data"
NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
SHOWN = rf"{NUMBER}(?: to {NUMBER}| \[{NUMBER}, {NUMBER}\])?(?: %)?"
MARK = re.compile(rf"(?P<shown>{SHOWN})<!-- figure (?P<runs>[\w*,-]+): (?P<figure>\w+)(?P<how>(?: [\w.%-]+)*) -->")
ANY_MARK = re.compile(r"<!-- figure [\w*,-]+: \w+(?: [\w.%-]+)* -->")


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
        ValueError: A mark follows no number, or names a run, a figure or a form that does not exist.
    """
    if lost := len(ANY_MARK.findall(page)) - len(MARK.findall(page)):
        raise ValueError(f"{lost} marks of figures do not directly follow a number")
    return MARK.sub(_one, page)


def _one(mark: re.Match[str]) -> str:
    named, figure, how = mark["runs"], mark["figure"], mark["how"].split()
    found = [
        run
        for name, run in runs().items()
        if figure in run.figures and any(fnmatchcase(name, pattern) for pattern in named.split(","))
    ]
    if not found:
        raise ValueError(f"no run {named} has a figure {figure}; runs: {', '.join(runs())}")
    return _shown(found, figure, how) + mark[0][len(mark["shown"]) :]


def _shown(found: Sequence[Measured], figure: str, how: Sequence[str]) -> str:
    is_percent = "%" in how
    digits = next((int(word) for word in how if word.isdigit()), 0 if is_percent else 2)
    kinds = [word for word in how if word != "%" and not word.isdigit()]

    def text(value: float) -> str:
        return f"{value * (100 if is_percent else 1):,.{digits}f}"

    values = [run.figures[figure] for run in found]
    unit = " %" if is_percent else ""
    match kinds:
        case ["range"]:
            return f"{text(min(values))} to {text(max(values))}{unit}"
        case [] if len(found) == 1:
            return f"{text(values[0])}{unit}"
        case ["spread"] if len(found) == 1:
            low, high = found[0].spread[figure]
            return f"{text(values[0])} [{text(low)}, {text(high)}]{unit}"
        case ["low-high"] if len(found) == 1:
            low, high = found[0].spread[figure]
            return f"{text(low)} to {text(high)}{unit}"
    raise ValueError(
        f"{figure} of {', '.join(run.name for run in found)} shown as {' '.join(kinds) or 'one value'}; accepted: "
        "range, and for one run nothing, spread or low-high"
    )


def sources() -> str:
    """Return a table of all runs: what was run, when, where, and from which commit."""
    head = "| run | command | date | commit | machine |\n| --- | --- | --- | --- | --- |\n"
    rows = (
        f"| `{run.name}` | `{run.command}` | {run.date} | `{run.commit}` | {run.machine} |" for run in runs().values()
    )
    return head + "\n".join(rows) + "\n"
