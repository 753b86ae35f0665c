"""The loaded services: two gateways in front of a scripted worker, one of them with a coordinator."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tlt_bench.gateway import servers
from tlt_bench.gateway.processes import process
from tlt_bench.served import ServedProcess, served


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedServices:
    """The loaded services."""

    alone: ServedProcess
    """A gateway without a coordinator."""
    fleet: ServedProcess
    """A gateway that reports to the coordinator."""
    coordinator: ServedProcess

    @property
    def gateways(self) -> tuple[ServedProcess, ...]:
        return self.alone, self.fleet

    @property
    def all(self) -> tuple[ServedProcess, ...]:
        return self.alone, self.fleet, self.coordinator

    @property
    def doors(self) -> Mapping[str, tuple[ServedProcess, str, str]]:
        """Every port: its service, address and protocol."""
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
    Run the services within the block, with their files in `scratch`.

    Raises:
        UnavailableError: A service did not start.
    """
    with ExitStack() as stack:

        def start(kind: str, config: Mapping[str, object], name: str) -> ServedProcess:
            return stack.enter_context(served(kind, {**config, "metrics_port": 0}, scratch, name=name))

        worker, _ = stack.enter_context(process(servers.serve_worker))
        coordinator = start("coordinator", {}, "coordinator")
        gateway = {"workers": [worker], "http": {"listen": "127.0.0.1:0"}}
        alone = start("gateway", gateway, "alone")
        fleet = start("gateway", gateway | {"coordinator": coordinator.ports["grpc"]}, "fleet")
        yield LoadedServices(alone=alone, fleet=fleet, coordinator=coordinator)
