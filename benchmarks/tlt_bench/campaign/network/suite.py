"""A suite with each service in its own network namespace."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from countdown.settings import DRAFTER
from tlt_bench.campaign.network.hosts import Network, connected
from tlt_bench.campaign.suite.proxy import Proxy
from tlt_bench.campaign.suite.suite import CLIENTS, MODEL, SECOND_GATEWAY, SETTINGS, WORKERS, Suite
from tlt_cache.embedded import executable
from tlt_common.processes.children import end
from tlt_common.rpc.channel import connect
from tlt_local.configuration.settings import spelled
from tlt_local.readiness import publish_drafter, until_joined
from tlt_local.stack import ENGINES_S
from tlt_local.supervision.home import Home, guarded
from tlt_local.supervision.processes import START_S, Command, Supervised, serve

PORT = 7700
REDIS_PORT = 6379
GATEWAYS = ("gateway", SECOND_GATEWAY)
RANKS = tuple(f"worker-{rank}" for rank in range(WORKERS))
SERVICES = ("coordinator", "cache", "tuner", *GATEWAYS, *RANKS)
NAMES = ("redis", *SERVICES)
PAIRS: tuple[tuple[str, str], ...] = (
    *((gateway, worker) for gateway in GATEWAYS for worker in RANKS),
    *((gateway, "coordinator") for gateway in GATEWAYS),
    *((worker, service) for worker in RANKS for service in ("coordinator", "cache", "tuner")),
    (RANKS[0], RANKS[1]),
    GATEWAYS,
    ("cache", "redis"),
    ("tuner", "redis"),
    ("client", "gateway"),
    ("client", SECOND_GATEWAY),
)
"""Those that call each other. The client is this process."""


@asynccontextmanager
async def running(directory: Path, *, seed: int) -> AsyncIterator[tuple[Suite, Network]]:
    """
    Run the suite and its network within the block; logs are written to `directory`.

    Raises:
        TltError: It did not start.
    """
    async with (
        guarded(directory) as home,
        connected(NAMES, home.environment) as network,
        _redis(network, home),
        asyncio.TaskGroup() as owners,
    ):
        started = [
            Supervised(name, _command(name, network, home), home, start_s=ENGINES_S if name in RANKS else START_S)
            for name in SERVICES
        ]
        for process in started:
            owners.create_task(process.run(), name=process.name)
        try:
            addresses = {process.name: (await process.addresses())["grpc"] for process in started}
            await _ready(addresses["coordinator"])
            proxy = Proxy([addresses[name] for name in GATEWAYS], seed=seed)
            async with proxy.listening(ports=CLIENTS):
                suite = Suite(
                    token=home.token, directory=home.directory, logs=home.logs, services=addresses, proxy=proxy
                )
                yield suite, network
        finally:
            home.leave()
            await asyncio.gather(*(process.stop() for process in started))


async def _ready(coordinator: str) -> None:
    async with connect(coordinator, to="coordinator") as channel:
        await until_joined(channel, WORKERS)
        await publish_drafter(channel, str(DRAFTER))


@asynccontextmanager
async def _redis(network: Network, home: Home) -> AsyncIterator[None]:
    host = network.hosts["redis"]
    command = [executable(), "--bind", host.ip, "--port", str(REDIS_PORT), "--protected-mode", "no"]
    with (home.logs / "redis.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *host.inside([*command, "--save", ""]), stdout=log, stderr=log, env={**os.environ, **home.environment}
        )
        try:
            yield
        finally:
            await end(process, START_S)


def _command(name: str, network: Network, home: Home) -> Command:
    host, kind = network.hosts[name], name.partition("-")[0]
    settings = {
        "listen": f"{host.ip}:{PORT}",
        "metrics_port": "0",
        "port_file": str(home.addresses(name)),
        **_settings(name, network, home),
        **spelled(SETTINGS.get(kind, {})),
    }
    return lambda fixed: host.inside(serve(kind, {**settings, **fixed}))


def _settings(name: str, network: Network, home: Home) -> dict[str, str]:
    def at(other: str) -> str:
        return f"{network.hosts[other].ip}:{PORT}"

    redis = f"redis://{network.hosts['redis'].ip}:{REDIS_PORT}"
    if name in GATEWAYS:
        return {"coordinator": at("coordinator"), "gateway_id": name}
    if name in RANKS:
        return {
            "model": str(MODEL),
            "worker_id": name,
            **{service: at(service) for service in ("coordinator", "cache", "tuner")},
            "run_dir": str(home.directory / name),
            "drafter_dir": str(home.data / "drafters"),
            "checkpoint_dir": str(home.data / "checkpoints"),
            "trainer.settings": json.dumps(spelled(SETTINGS["trainer"])),
        }
    return {"coordinator": {"state_dir": str(home.data / "coordinator"), "http_listen": "null"}}.get(
        name, {"redis": redis}
    )
