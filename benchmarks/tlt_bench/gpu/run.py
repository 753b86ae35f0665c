"""Runs the parts in sequence, keeps their outcomes, and writes the table."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tlt_bench.gpu.part import KEPT, LIMIT_S, MODELS, PASSED, RESULT, GpuOutcome, GpuPart
from tlt_common.errors import ConfigError

TAIL_CHARACTERS = 4000


def run(
    parts: Sequence[GpuPart],
    directory: Path,
    *,
    has_gpu: bool,
    log: Callable[[str], None],
    models: Path | None = None,
    limit_s: float = LIMIT_S,
) -> list[GpuOutcome]:
    """
    Run all parts that have not passed yet; return all outcomes.

    Args:
        parts: The parts to run.
        directory: Directory of outcomes. A part that passed is not run again.
        has_gpu: Whether parts that need a GPU can run.
        log: Receives a line per part, and one per figure.
        models: Directory of random models; None for a subdirectory of `directory`.
        limit_s: Time limit of each part in seconds.

    Raises:
        ConfigError: The directory cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--keep: {directory} cannot be created: {error}", field="keep") from error
    found: list[GpuOutcome] = []
    places = {MODELS: str(models or directory / "models"), KEPT: str(directory)}
    for part in parts:
        path = GpuOutcome.path(directory, part.name)
        kept = GpuOutcome.model_validate_json(path.read_text()) if path.exists() else None
        if kept is None or not kept.has_passed:
            log(f"{part.name}: {part.shows}")
            missing = [name for name in part.after if name not in {one.name for one in found if one.has_passed}]
            if reason := _skipped(part, missing, has_gpu=has_gpu):
                kept = GpuOutcome(name=part.name, shows=part.shows, command=_shown(part), seconds=0.0, status=reason)
            else:
                kept = _outcome(part, directory, places, limit_s=limit_s)
            path.write_text(kept.model_dump_json(indent=1) + "\n")
        log(f"{part.name}: {kept.status}, {kept.seconds:.0f} s")
        for name, value in kept.figures.items():
            log(f"    {name:<40} {value:g}")
        found.append(kept)
    return found


def table(outcomes: Sequence[GpuOutcome], machine: Mapping[str, str]) -> str:
    """Return the outcomes as a Markdown page."""
    lines = [
        "# `tlt bench gpu`",
        "",
        *(f"- {name}: {value}" for name, value in machine.items()),
        "",
        "| part | shows | status | seconds | figures |",
        "| --- | --- | --- | --- | --- |",
    ]
    for one in outcomes:
        figures = ", ".join(f"`{name}` {value:g}" for name, value in one.figures.items())
        lines.append(f"| {one.name} | {one.shows} | {one.status} | {one.seconds:.0f} | {figures} |")
    commands = "\n".join(f"{one.name}: {one.command}" for one in outcomes)
    return "\n".join([*lines, "", "```", commands, "```", ""])


def with_needed(names: Sequence[str], parts: Sequence[GpuPart]) -> list[GpuPart]:
    """Return the named parts and all parts that they depend on, in the order of `parts`."""
    wanted = set(names)
    for part in reversed(parts):
        if part.name in wanted:
            wanted.update(part.after)
    return [part for part in parts if part.name in wanted]


def _skipped(part: GpuPart, missing: Sequence[str], *, has_gpu: bool) -> str:
    if part.needs_gpu and not has_gpu:
        return "skipped: no GPU"
    if part.model and not part.model.is_here:
        return f"skipped: {part.model.name} is not on this machine; `tlt models get {part.model.name}` fetches it"
    return f"skipped: {missing[0]} has not passed" if missing else ""


def _shown(part: GpuPart) -> str:
    names = {RESULT: "FILE", MODELS: "MODELS", KEPT: "KEPT"}
    return " ".join(["python", *(_replaced(argument, names) for argument in part.command)])


def _replaced(argument: str, places: Mapping[str, str]) -> str:
    for mark, value in places.items():
        argument = argument.replace(mark, value)
    return argument


def _outcome(part: GpuPart, directory: Path, places: Mapping[str, str], *, limit_s: float) -> GpuOutcome:
    result = directory / f"{part.name}.figures.json"
    result.unlink(missing_ok=True)
    arguments = [_replaced(argument, {RESULT: str(result), **places}) for argument in part.command]
    began_s = time.monotonic()
    status, output = _status([sys.executable, *arguments], directory / f"{part.name}.log", limit_s)
    return GpuOutcome(
        name=part.name,
        shows=part.shows,
        command=_shown(part),
        seconds=round(time.monotonic() - began_s, 1),
        status=status,
        figures=_figures(result),
        tail="" if status == PASSED else output[-TAIL_CHARACTERS:],
    )


def _status(command: Sequence[str], log: Path, limit_s: float) -> tuple[str, str]:
    """Run a command; return its status and its output, which is also in `log`."""
    # A process group of its own: engines must not outlive a part that ran out of time.
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True) as process:
        try:
            status = "failed" if process.wait(limit_s) else PASSED
        except subprocess.TimeoutExpired:
            status = "timed out"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return status, log.read_text(errors="replace")


def _figures(result: Path) -> dict[str, float]:
    if not result.exists():
        return {}
    found: Any = json.loads(result.read_text())
    figures = found.get("figures", found) if isinstance(found, dict) else {}
    return {name: float(value) for name, value in figures.items() if isinstance(value, int | float)}
