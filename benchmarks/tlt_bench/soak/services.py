"""The services that are loaded: two gateways in front of a scripted worker, one of them with a coordinator."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tlt_bench.gateway import servers
from tlt_bench.gateway.processes import process
from tlt_common.errors import UnavailableError

START_S = 60.0
STOP_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedService:
    """A running service."""

    name: str
    running: "subprocess.Popen[bytes]"
    ports: Mapping[str, str]
    log: Path

    @property
    def rss_mib(self) -> float:
        """
        Memory of its process.

        Raises:
            UnavailableError: It has ended by itself.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedServices:
    """Those that are loaded."""

    alone: LoadedService
    """A gateway without a coordinator."""
    fleet: LoadedService
    """A gateway that reports to the coordinator."""
    coordinator: LoadedService

    @property
    def gateways(self) -> tuple[LoadedService, ...]:
        return self.alone, self.fleet

    @property
    def all(self) -> tuple[LoadedService, ...]:
        return self.alone, self.fleet, self.coordinator

    @property
    def doors(self) -> Mapping[str, tuple[LoadedService, str, str]]:
        """Every port: the service, its address and the protocol."""
        return {
            "gateway_grpc": (self.alone, self.alone.ports["grpc"], "grpc"),
            "gateway_http": (self.alone, self.alone.ports["rollout_http"], "/health"),
            "gateway_metrics": (self.alone, self.alone.ports["metrics"], "/livez"),
            "coordinator_grpc": (self.coordinator, self.coordinator.ports["grpc"], "grpc"),
            "coordinator_page": (self.coordinator, self.coordinator.ports["http"], "/api/v1/fleet"),
            "coordinator_metrics": (self.coordinator, self.coordinator.ports["metrics"], "/livez"),
        }


@contextmanager
def services(scratch: Path) -> Iterator[LoadedServices]:
    """
    Run them within the block, with their files in `scratch`.

    Raises:
        UnavailableError: One did not start.
    """
    with ExitStack() as stack:
        worker, _ = stack.enter_context(process(servers.serve_worker))
        coordinator = _started(stack, "coordinator", {}, scratch, "coordinator")
        gateway = {"workers": [worker], "http": {"listen": "127.0.0.1:0"}}
        alone = _started(stack, "alone", gateway, scratch, "gateway")
        fleet = _started(stack, "fleet", gateway | {"coordinator": coordinator.ports["grpc"]}, scratch, "gateway")
        yield LoadedServices(alone=alone, fleet=fleet, coordinator=coordinator)


def _started(stack: ExitStack, name: str, config: Mapping[str, object], scratch: Path, kind: str) -> LoadedService:
    ports, log, spelled = scratch / f"{name}.ports", scratch / f"{name}.log", scratch / f"{name}.json"
    spelled.write_text(json.dumps({**config, "metrics_port": 0, "port_file": str(ports), "log_level": "warning"}))
    command = [sys.executable, "-m", "tlt_common.cli", "serve", kind, "--config", str(spelled)]
    output = stack.enter_context(log.open("wb"))
    running = stack.enter_context(_ended(subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)))
    deadline_s = time.monotonic() + START_S
    while not ports.exists():
        service = LoadedService(name=name, running=running, ports={}, log=log)
        service.require_alive()
        if time.monotonic() > deadline_s:
            raise UnavailableError(f"{name} did not start within {START_S:g} s; see {log}")
        time.sleep(0.05)
    return LoadedService(name=name, running=running, ports=json.loads(ports.read_text()), log=log)


@contextmanager
def _ended(running: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(STOP_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
