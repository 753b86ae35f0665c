"""
Plain tables of lengths: CSV with a header line, or JSON lines.

`tokens` is required, and so is one of `prompt`, which identifies a prompt across the log, `group`, which identifies the
responses to one prompt within a step, or the number of responses per prompt, if they are consecutive. `step`: a whole
number; without it a file is a step. `prompt_tokens`; `ends`: whether the response ended by itself; `after_s`: seconds
from the beginning of its step to its request; `seconds`: from there to its last token; `rollout_s` and `step_s`: of its
step.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tlt_simulator.traces.form import FirstLook, Found, FoundResponse, FoundStep, Identity, ReadOptions
from tlt_simulator.traces.forms.serving import AZURE, BURSTGPT
from tlt_simulator.traces.logfile import LogNames, lines, objects, suffix
from tlt_simulator.traces.table import cells
from tlt_simulator.traces.units import UnitCheck
from tlt_simulator.traces.values import LineValues, name_of, refused

NAMES = LogNames(suffixes=(".csv", ".jsonl", ".ndjson"), called="*.csv or *.jsonl")
COLUMNS = (
    "step",
    "prompt",
    "group",
    "tokens",
    "prompt_tokens",
    "ends",
    "after_s",
    "seconds",
    "rollout_s",
    "step_s",
)
COUNTS = frozenset({"step", "tokens", "prompt_tokens"})
TIMES = frozenset({"after_s", "seconds", "rollout_s", "step_s"})
_DECIMAL = re.compile(r"[0-9]{1,15}(\.[0-9]*)?([eE][+-]?[0-9]{1,2})?")


class PlainForm:
    """Reads plain tables."""

    name = "lengths"
    about = f"CSV with a line of names, or JSON lines, with {', '.join(COLUMNS)}; all but tokens may be left out"
    tokens_field = "tokens"
    group_field = "prompt"

    def fits(self, look: FirstLook) -> bool:
        if suffix(look.path) == ".csv":  # also one with unknown columns, which are then named
            return not any(form.fits(look) for form in (BURSTGPT, AZURE))
        return "tokens" in look.first

    def first_of(self, directory: Path) -> Path | None:
        return NAMES.first_of(directory)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:
        units = UnitCheck()
        for number, file in enumerate(NAMES.chosen(path, options.note), start=1):
            reader, step = PlainFile(number, options), None
            for line in table(file) if suffix(file) == ".csv" else objects(file):
                found = reader.response(line)
                if step is not None and found.step != step:
                    yield from reader.step_over(units)
                step = found.step
                yield found
                reader.learn(line, found)
            yield from reader.step_over(units)


class PlainFile:
    """The lines of one file, which have the same fields."""

    def __init__(self, number: int, options: ReadOptions) -> None:
        self._number, self._options = number, options
        self._fields = frozenset[str]()
        self._times = list[tuple[float, int, str]]()
        self._step = dict[str, float]()
        self._last: FoundResponse | None = None

    def response(self, line: LineValues) -> FoundResponse:
        """
        Return the response of a line.

        Raises:
            ConfigError: A field is not accepted.
        """
        if line.values.keys() != self._fields:
            self._require_fields(line)
        has = self._fields.__contains__
        step = line.whole("step") if has("step") else self._number
        prompt: Identity | None = line.identity("prompt") if has("prompt") else None
        group: Identity | None = (step, line.identity("group")) if has("group") else None
        return FoundResponse(
            place=line.place,
            step=step,
            prompt=group if prompt is None else prompt,
            group=group,
            prompt_tokens=line.tokens("prompt_tokens") if has("prompt_tokens") else 0,
            tokens=line.tokens("tokens"),
            ends=line.flag("ends") if has("ends") else None,
            after_s=line.seconds("after_s") if has("after_s") else 0.0,
            seconds=line.seconds("seconds") if has("seconds") else None,
        )

    def _require_fields(self, line: LineValues) -> None:
        """Record the fields of the first line, and check that other lines have the same."""
        if unknown := [field for field in line.values if field not in COLUMNS]:
            raise refused(line.place, f"a field {name_of(unknown[0])}", "is unknown", ", ".join(COLUMNS))
        if self._fields:
            field = min(line.values.keys() ^ self._fields)
            problem = "is missing" if field in self._fields else "is missing in the lines before it"
            raise refused(line.place, field, problem, "the same fields in all lines")
        self._fields = frozenset(line.values)
        note = self._options.note
        if "prompt_tokens" not in self._fields:
            note("the lengths of prompts are not in the log: they count as 0 tokens")
        if "step" not in self._fields:
            note("the log names no steps: each file is one")
        if "prompt" not in self._fields and "group" in self._fields:
            note("groups are named within a step only: prompts of later epochs count as others")

    def learn(self, line: LineValues, found: FoundResponse) -> None:
        """
        Record a line's facts about its step.

        Raises:
            ConfigError: Another line of the step differs.
        """
        self._last = found
        if found.seconds is not None:
            self._times.append((found.seconds, found.tokens, found.place))
        for field in ("rollout_s", "step_s"):
            if field in self._fields:
                value = line.seconds(field)
                if self._step.setdefault(field, value) != value:
                    raise line.error(field, f"{self._step[field]:g}, as in the other lines of step {found.step}")

    def step_over(self, units: UnitCheck) -> Iterator[FoundStep]:
        """
        Yield the facts about the finished step.

        Raises:
            ConfigError: Its durations are in different units.
        """
        units.check(self._times)
        if self._last is not None and self._step:
            yield FoundStep(
                place=self._last.place,
                step=self._last.step,
                rollout_s=self._step.get("rollout_s"),
                step_s=self._step.get("step_s"),
            )
        self._times, self._step = [], {}


def table(path: Path) -> Iterator[LineValues]:
    """
    Yield the rows of a comma-separated CSV file, with numbers and booleans converted by column.

    Raises:
        ConfigError: The file cannot be read, its first line has no names, or a row has a different number of values.
    """
    names = list[str]()
    for line in lines(path):
        found = cells(line)
        if not names:
            names = _names(line.place, found)
        elif len(found) != len(names):
            raise refused(
                line.place, "the line", f"has {len(found)} values", f"{len(names)}, as the first line has names"
            )
        else:
            yield LineValues(line.place, {name: _value(name, cell) for name, cell in zip(names, found, strict=True)})


def _names(place: str, found: list[str]) -> list[str]:
    names = [cell.strip() for cell in found]
    for number, name in enumerate(names, start=1):
        if name not in COLUMNS:
            raise refused(place, f"column {number}", f"is {name_of(name)}", f"names: {', '.join(COLUMNS)}")
    if len(set(names)) < len(names):
        raise refused(place, "a column", "appears twice", "each name once")
    if "tokens" not in names:
        raise refused(place, "tokens", "is missing", f"a column tokens, and any of {', '.join(COLUMNS)}")
    return names


def _value(name: str, cell: str) -> Any:
    """Return a number or boolean if the column has such values, otherwise the string, which will be refused."""
    cell = cell.strip()
    if name in COUNTS:
        return int(cell) if cell.isascii() and cell.isdigit() and len(cell) <= 15 else cell
    if name in TIMES:
        return float(cell) if _DECIMAL.fullmatch(cell) else cell
    if name == "ends":
        return {"true": True, "false": False}.get(cell.lower(), cell)
    return cell
