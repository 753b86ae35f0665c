"""
Results file of a sweep, from which it can be resumed: the format `tlt-sweep/1`.

The first line identifies the scenario and trace; each further line is a result. Lines are written immediately, and a
last line truncated by a crash is ignored.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tlt_common import __version__
from tlt_common.documents import json_of
from tlt_common.errors import ConfigError
from tlt_simulator.scenario import Scenario
from tlt_simulator.sweep.outcomes import SideOutcome, SweepOutcome
from tlt_simulator.trace import RunTrace

FORMAT = "tlt-sweep/1"


def trace_digest(trace: RunTrace) -> str:
    """Return the SHA-256 of a trace's responses."""
    digest = hashlib.sha256()
    for step in trace.steps:
        told = [(each.prompt, each.prompt_tokens, each.tokens, each.ends, each.after_s) for each in step.samples]
        digest.update(repr(told).encode())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptScenario:
    """Identity of the sweep whose results a file holds."""

    scenario: Scenario
    trace: RunTrace

    def header(self) -> dict[str, Any]:
        """Return the first line of the file."""
        return {
            "format": FORMAT,
            "version": __version__,
            "trace": trace_digest(self.trace),
            "source": self.trace.source,
            # The seed is part of each result.
            "scenario": self.scenario.model_dump(mode="json", exclude={"seed"}),
        }


def key_of(changes: Mapping[str, str], seed: int) -> str:
    """Return the key of a result."""
    return json.dumps({"changes": dict(sorted(changes.items())), "seed": seed})


class ResultsFile:
    """An open file of results. It is locked until it is closed."""

    def __init__(self, path: Path, swept: SweptScenario, *, resume: bool) -> None:
        """
        Open a file and read its results.

        Args:
            path: The file.
            swept: Identity of the sweep.
            resume: Whether the file may already have results.

        Raises:
            ConfigError: It cannot be written, belongs to another scenario, is invalid, is in use by another sweep, or
                exists without `resume`.
        """
        self._path = path
        self.cut = False
        """Whether the last line was left out, since it was cut."""
        self._results = dict[str, SweepOutcome]()
        self._file = self._opened(resume=resume)
        try:
            self._read(swept.header())
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def __len__(self) -> int:
        return len(self._results)

    def get(self, changes: Mapping[str, str], seed: int) -> SweepOutcome | None:
        """Return a result, or None if it does not exist yet."""
        return self._results.get(key_of(changes, seed))

    def put(self, changes: Mapping[str, str], seed: int, outcome: SweepOutcome) -> None:
        """
        Write a result.

        Raises:
            ConfigError: The file cannot be written.
        """
        self._append({"changes": dict(changes), "seed": seed, **asdict(outcome)})
        self._results[key_of(changes, seed)] = outcome

    def _opened(self, *, resume: bool) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | (0 if resume else os.O_EXCL)
        try:
            file = os.open(self._path, flags, 0o644)
        except FileExistsError:
            raise ConfigError(
                f"--results {self._path} exists; accepted: a new file, or --resume to continue this one",
                field="results",
            ) from None
        except OSError as error:
            raise ConfigError(f"--results {self._path}: {error.strerror}", field="results") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise ConfigError(f"--results {self._path}: another sweep writes to it", field="results") from None
        return file

    def _read(self, expected: Mapping[str, Any]) -> None:
        content = self._path.read_bytes()
        whole, _, cut = content.rpartition(b"\n")
        if cut:
            self.cut = True
            os.ftruncate(self._file, len(content) - len(cut))
        lines = whole.split(b"\n") if whole else []
        if not lines:
            self._append(dict(expected))
            return
        self._check(self._parsed(lines[0], 1), expected)
        for number, line in enumerate(lines[1:], start=2):
            result = self._parsed(line, number)
            try:
                key = key_of(result["changes"], int(result["seed"]))
                self._results[key] = SweepOutcome(
                    without=SideOutcome(**result["without"]), with_suite=SideOutcome(**result["with_suite"])
                )
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise self._invalid(number, f"is not a result: {error}") from error

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            value = json_of(line)
        except ValueError as error:
            raise self._invalid(number, f"is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise self._invalid(number, "is not an object")
        return value

    def _check(self, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
        if found.get("format") != FORMAT:
            raise self._invalid(1, f"has the format {found.get('format')!r}; accepted: {FORMAT}")
        for name in ("version", "trace", "scenario"):
            if (where := next(_differences(found.get(name), expected[name], name), None)) is not None:
                source = f" (its trace was {found.get('source')})" if name == "trace" else ""
                raise ConfigError(
                    f"--results {self._path} is of another sweep{source}: {where}; accepted: another file, or the "
                    "options with which it was begun",
                    field="results",
                )

    def _invalid(self, number: int, what: str) -> ConfigError:
        return ConfigError(f"--results {self._path}:{number} {what}", field="results")

    def _append(self, line: dict[str, Any]) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        try:
            if os.write(self._file, data) != len(data):
                raise ConfigError(f"--results {self._path}: the disk is full", field="results")
        except OSError as error:
            raise ConfigError(f"--results {self._path}: {error.strerror}", field="results") from error


def _differences(found: Any, expected: Any, name: str) -> Iterator[str]:
    """Yield where two values differ, by key."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in (*expected, *(key for key in found if key not in expected)):
            yield from _differences(found.get(key), expected.get(key), f"{name}.{key}")
    elif json.dumps(found) != json.dumps(expected):
        yield f"{name} is {_short(found)} there, {_short(expected)} here"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
