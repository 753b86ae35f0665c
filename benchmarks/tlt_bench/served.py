"""Services in separate processes, as started by `tlt serve`."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tlt_common.errors import UnavailableError
from tlt_common.processes.children import ended_after_block

START_S = 60.0
STOP_S = 15.0
LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedProcess:
    """A service."""

    name: str
    running: "subprocess.Popen[bytes]"
    ports: Mapping[str, str]
    """Addresses by kind; empty until it serves."""
    log: Path

    @property
    def rss_mib(self) -> float:
        """
        Memory of its process.

        Raises:
            UnavailableError: The process has ended by itself.
        """
        self.require_alive()
        return float(psutil.Process(self.running.pid).memory_info().rss / 2**20)

    def require_alive(self) -> None:
        """
        Raises:
            UnavailableError: The service has ended by itself.
        """
        if (code := self.running.poll()) is not None:
            last = self.log.read_text(errors="replace").strip().splitlines()[-1:]
            raise UnavailableError(f"{self.name} ended with exit code {code}; last log line: {' '.join(last)}")


@contextmanager
def served(kind: str, config: Mapping[str, object], scratch: Path, *, name: str = "") -> Iterator[ServedProcess]:
    """
    Run a service of this kind within the block, with its files in `scratch`.

    Raises:
        UnavailableError: The service did not start.
    """
    name = name or kind
    ports, log, spelled = scratch / f"{name}.ports", scratch / f"{name}.log", scratch / f"{name}.json"
    spelled.write_text(json.dumps({**config, "port_file": str(ports), "log_level": "warning"}))
    command = [sys.executable, "-m", "tlt_common.cli", "serve", kind, "--config", str(spelled)]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as running,
        ended_after_block(running, STOP_S),
    ):
        deadline_s = time.monotonic() + START_S
        while not ports.exists():
            ServedProcess(name=name, running=running, ports={}, log=log).require_alive()
            if time.monotonic() > deadline_s:
                raise UnavailableError(f"{name} did not start within {START_S:g} s; see {log}")
            time.sleep(LOOK_S)
        yield ServedProcess(name=name, running=running, ports=json.loads(ports.read_text()), log=log)
