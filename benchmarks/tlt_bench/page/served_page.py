"""The page of one simulated fleet, served by a separate process."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tlt_common.errors import EngineError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPage:
    """A coordinator's page."""

    url: str
    process: subprocess.Popen[str]


@contextmanager
def serving(workers: int, *arguments: str) -> Iterator[ServedPage]:
    """
    Run a coordinator with a simulated fleet; `arguments` are those of `tlt_bench.page.host`.

    Raises:
        EngineError: The process ended before it served.
    """
    command = [sys.executable, "-m", "tlt_bench.page.host", str(workers), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            if not (url := process.stdout.readline().strip()):
                raise EngineError(f"the coordinator with {workers} workers ended with {process.wait()}")
            yield ServedPage(url=url, process=process)
        finally:
            process.kill()
