"""Starts `tlt up` in every case, and measures the time until the terminal reports the cause."""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from countdown.model import CHECKPOINT
from tlt_bench.engines.bench_engine import log
from tlt_bench.result import Result
from tlt_bench.starts.cases import CASES, Case, prepared

LIMIT_S = 600.0
"""Time limit of one start; generous, since machines may be busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedStart:
    """Terminal output of a failing start."""

    line: str
    """The command's error, its last line."""
    cause_s: float
    """From the start of the command to the first line that names the cause; 0 if none does."""
    exit_s: float
    """From the start of the command to its exit."""
    code: int


def failure_of(case: Case, checkpoint: Path = CHECKPOINT) -> FailedStart:
    """Run `tlt up` until it fails. If it has not failed within LIMIT_S, it is ended without a line."""
    with tempfile.TemporaryDirectory(prefix="tlt-starts-") as temporary, _used_port() as port:
        directory = Path(temporary)
        model = prepared(case, checkpoint, directory)
        options = [option.format(port=port) for option in case.options]
        defaults = ["--model", str(model), "--workers", "1", *([] if "--port" in options else ["--port", "0"])]
        began_s = time.monotonic()
        with subprocess.Popen(
            [sys.executable, "-m", "tlt_common.cli", "up", *defaults, *options],
            env={**os.environ, **({"PYTHONPATH": temporary} if case.sitecustomize else {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            line, cause_s = "", 0.0
            giving_up = threading.Timer(LIMIT_S, process.terminate)
            giving_up.start()
            for shown in process.stdout:
                if case.says in shown and not cause_s:
                    cause_s = time.monotonic() - began_s
                if shown.startswith("tlt: ") and not line:
                    line = shown.strip()
            code = process.wait()
            giving_up.cancel()
        return FailedStart(line=line, cause_s=cause_s, exit_s=time.monotonic() - began_s, code=code)


def measure(names: Sequence[str] = ()) -> Result:
    """Measure the named cases, or all."""
    chosen = [case for case in CASES if not names or case.name in names]
    found = {}
    for case in chosen:
        failure = found[case.name] = failure_of(case)
        named = "names the cause" if case.says in failure.line else "DOES NOT NAME THE CAUSE"
        log(f"{case.name}: {failure.cause_s:.1f} s, {named}: {failure.line}")
    causes = [failure.cause_s for failure in found.values()]
    return Result(
        name="starts",
        figures={
            "cause_s": statistics.median(causes),
            "cause_max_s": max(causes),
            "named": sum(case.says in found[case.name].line for case in chosen) / len(chosen),
            **{f"{name}_s": failure.cause_s for name, failure in found.items()},
        },
        spread={"cause_s": (min(causes), max(causes))},
        repeats=1,
        notes={name: failure.line for name, failure in found.items()},
    )


@contextmanager
def _used_port() -> Iterator[int]:
    """Yield a port with a listener that closes every connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])
