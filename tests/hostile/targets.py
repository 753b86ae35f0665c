"""The processes that get the inputs: gateways in front of a scripted worker, and a coordinator."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.fakes.chat_model import write_chat_model
from tests.hostile.case import SECRETS, At
from tlt_common.processes.children import ended_after_block

START_S = 60.0
RESTING_MS = 20.0
PAGES = (At.COORDINATOR, At.PAGE)
STALL = "tlt_rpc_loop_stall_seconds"
SERVE = (sys.executable, "-m", "tlt_common.cli", "serve")


class Target:
    """
    One process.

    Attributes:
        http, grpc, metrics: Its addresses.
    """

    def __init__(self, process: subprocess.Popen[bytes], ports: Mapping[str, str], log: Path) -> None:
        self._process = process
        self._log = log
        self.http = ports.get("rollout_http") or ports["http"]
        self.grpc = ports["grpc"]
        self.metrics = ports["metrics"]
        self._longest_ms = 0.0
        self._idle_kib = 0

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    @property
    def log(self) -> str:
        """What it wrote."""
        return self._log.read_text(errors="replace")

    def peak_mib(self) -> float:
        """Return the most memory it has had, above what it had before the first input."""
        return (self._memory("VmHWM") - self._idle_kib) / 1024

    def grown_mib(self) -> float:
        """Return what it has now above what it had before the first input."""
        return (self._memory("VmRSS") - self._idle_kib) / 1024

    def rest(self) -> None:
        """Wait until the stalls of its start are forgotten, and measure its memory again."""
        while self._stall_ms() > RESTING_MS:
            time.sleep(1)
        # Resets VmHWM, the highest VmRSS so far.
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")
        self._idle_kib = self._memory("VmRSS")

    def stall_ms(self) -> float:
        """Return the longest stall of its event loop. Call it at least twice per minute: the process forgets it."""
        self._longest_ms = max(self._longest_ms, self._stall_ms())
        return self._longest_ms

    def _stall_ms(self) -> float:
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=START_S) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"{STALL} "):
                    return float(line.split()[1]) * 1000
        raise AssertionError(f"no {STALL}")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(name))


@contextmanager
def targets(
    scratch: Path, *, workers: Sequence[str] = (), descriptors: int | None = None
) -> Iterator[Mapping[At, Target]]:
    """
    Run all of them within the block, with their files in `scratch`.

    Args:
        scratch: An empty directory.
        workers: Addresses of further workers of the gateways.
        descriptors: The hard limit of each process, which has its own limit otherwise.
    """
    write_chat_model(scratch / "model")
    (scratch / "tokens.yaml").write_text(json.dumps({"tokens": [
        {"name": scope, "token": secret, "scopes": [scope]} for scope, secret in SECRETS.items()
    ]}))  # fmt: skip
    with ExitStack() as stack:
        worker = stack.enter_context(_process(sys.executable, "-m", "tests.hostile.worker"))
        assert worker.stdout is not None
        address = worker.stdout.readline().decode().strip()
        gateway: dict[str, object] = {
            "workers": [address, *workers],
            "http": {"listen": "127.0.0.1:0", "tokenizer": str(scratch / "model")},
        }
        tokens = str(scratch / "tokens.yaml")
        configs: dict[At, dict[str, object]] = {
            At.OPEN: gateway,
            At.CLOSED: gateway | {"tokens": tokens},
            At.COORDINATOR: {"tokens": tokens},
            At.PAGE: {"http_hosts": ["page.example"]},
        }
        started = {at: _started(stack, at, config, scratch, descriptors) for at, config in configs.items()}
        yield {at: _awaited(at, process, scratch) for at, process in started.items()}


def _started(
    stack: ExitStack, at: At, config: Mapping[str, object], scratch: Path, descriptors: int | None
) -> subprocess.Popen[bytes]:
    service = "coordinator" if at in PAGES else "gateway"
    files = {"metrics_port": 0, "port_file": str(scratch / f"{at}.ports")}
    (scratch / f"{at}.json").write_text(json.dumps({**config, **files}))
    log = stack.enter_context((scratch / f"{at}.log").open("wb"))
    limited = ("sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh") if descriptors else ()
    command = (*limited, *SERVE, service, "--config", str(scratch / f"{at}.json"))
    return stack.enter_context(_process(*command, stdout=log, stderr=subprocess.STDOUT))


def _awaited(at: At, process: subprocess.Popen[bytes], scratch: Path) -> Target:
    """Wait until a process serves, and the worker is known to it."""
    ports, log, deadline_s = scratch / f"{at}.ports", scratch / f"{at}.log", time.monotonic() + START_S
    while time.monotonic() < deadline_s and process.poll() is None:
        if ports.exists() and _is_healthy(at, found := json.loads(ports.read_text())):
            return Target(process, found, log)
        time.sleep(0.05)
    raise AssertionError(f"{at} did not start:\n{log.read_text()}")


def _is_healthy(at: At, ports: Mapping[str, str]) -> bool:
    path = "http" if at in PAGES else "rollout_http"
    page = "healthz" if at in PAGES else "health"
    try:
        with urllib.request.urlopen(f"http://{ports[path]}/{page}", timeout=START_S):
            return True
    except OSError:
        return False


@contextmanager
def _process(*command: str, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process within the block; what it prints can be read, unless `options` say otherwise."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE} | options
    running: subprocess.Popen[bytes] = subprocess.Popen(command, **streams)  # type: ignore[call-overload]
    with running, ended_after_block(running, START_S):
        yield running
