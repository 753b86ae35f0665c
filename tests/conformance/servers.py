"""The two servers that are compared: SGLang's own, and the suite's gateway in front of a worker, with one model."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx

from tlt_worker.engine.device import CPU

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "demos" / "countdown" / "countdown" / "checkpoint"
DTYPE = "float32"
"""With which both servers generate the same tokens, whatever kernels they use."""
MAX_RUNNING = 8
START_S = 900.0
"""An engine takes a minute, and many on a busy machine."""
END_S = 20.0


@contextmanager
def both(work: Path) -> Iterator[tuple[str, str]]:
    """Start both servers, at the same time; yield the URLs of SGLang's and of the suite's."""
    with ExitStack() as processes:
        stock_url = f"http://127.0.0.1:{_free_port()}"
        stock = processes.enter_context(_process("sglang", _stock(stock_url), work, CPU.variables()))
        worker = processes.enter_context(_process("worker", _worker(work), work))
        address = _announced(work / "worker.json", worker)["grpc"]
        gateway = processes.enter_context(_process("gateway", _gateway(work, address), work))
        suite_url = f"http://{_announced(work / 'gateway.json', gateway)['rollout_http']}"
        for url, process in ((stock_url, stock), (suite_url, worker)):
            _wait_until_healthy(url, process)
        yield stock_url, suite_url


def _stock(url: str) -> list[str]:
    return [
        *("-m", "sglang.launch_server", "--model-path", str(MODEL), "--dtype", DTYPE, "--device", "cpu"),
        *("--port", url.rpartition(":")[2], "--sampling-backend", "pytorch", "--disable-cuda-graph"),
        *("--max-running-requests", str(MAX_RUNNING), "--max-total-tokens", "8192", "--weight-version", "0"),
        *("--log-level", "warning", "--skip-server-warmup"),
    ]


def _worker(work: Path) -> list[str]:
    settings = {
        "model": MODEL,
        "engine.dtype": DTYPE,
        "engine.max_running": MAX_RUNNING,
        "port_file": work / "worker.json",
        "run_dir": work / "run",
    }
    return _serve("worker", settings)


def _gateway(work: Path, worker: str) -> list[str]:
    settings = {
        "workers": f'["{worker}"]',
        "http.listen": "127.0.0.1:0",
        "http.tokenizer": MODEL,
        "port_file": work / "gateway.json",
    }
    return _serve("gateway", settings)


def _serve(service: str, settings: Mapping[str, object]) -> list[str]:
    sets = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    return ["-m", "tlt_common.cli", "serve", service, *sets]


@contextmanager
def _process(
    name: str, arguments: Sequence[str], work: Path, variables: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server in a session of its own, all of which is ended with it; its output is in `work`."""
    with (work / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(variables or {})},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):  # children of a server that ended may still run
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)


def _announced(file: Path, process: subprocess.Popen[bytes]) -> dict[str, str]:
    """Return the addresses of a service, once it has written them."""
    ends_s = time.monotonic() + START_S
    while not file.exists():
        _require_running(process, ends_s)
        time.sleep(0.2)
    found: dict[str, str] = json.loads(file.read_text())
    return found


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes]) -> None:
    ends_s = time.monotonic() + START_S
    while True:
        try:
            if httpx.get(f"{url}/health", timeout=5).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        _require_running(process, ends_s)
        time.sleep(0.5)


def _require_running(process: subprocess.Popen[bytes], ends_s: float) -> None:
    assert process.poll() is None, f"{process.args!r} ended with {process.returncode}; see its log"
    assert time.monotonic() < ends_s, f"{process.args!r} does not serve after {START_S:g} s"


def _free_port() -> int:
    # SGLang does not accept port 0.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
