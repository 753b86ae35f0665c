"""The suite to disturb: `tlt up` with two float32 engines, a second gateway, and a proxy."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import countdown
from countdown.settings import DRAFTER, EAGER
from tlt_bench.campaign.suite.proxy import Proxy
from tlt_common.errors import TltError
from tlt_local.addresses import HOST
from tlt_local.configuration.config import StackConfig
from tlt_local.configuration.settings import spelled
from tlt_local.stack import Stack
from tlt_local.supervision.home import Home
from tlt_local.supervision.processes import Ended, Supervised, serve

MODEL = Path(countdown.__file__).with_name("checkpoint")
WORKERS = 2
LIVENESS_S = 12.0
"""Shorter than the default, so that a long stop ends with the death of the process and not with SIGCONT."""
STARTS = 3
RAY_GAVE_UP = "timed out during startup"
"""Ray allows its own node 30 s to start, which is not configurable (ray/_private/node.py)."""
CLIENTS = 3
"""Clients with connections of their own, so that both gateways are used."""
SECOND_GATEWAY = "gateway-1"

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    # Float32, so that every seed has one right answer whatever the batch and the arm.
    "worker": {"engine": {"dtype": "float32"}},
    # When all engines are down, requests wait until one is back: an engine starts in minutes on a busy machine.
    # Gateways that are terminated finish what runs.
    "gateway": {"worker_wait_s": 900.0, "drain_s": 20.0},
    # Drafters are published often, so that many swaps happen.
    "trainer": {**EAGER, "publish": {"first_gain": 0.0, "gain": 0.0, "every_tokens": 16384}},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """An object store."""

    url: str
    """URL to which trainers write drafters and checkpoints."""
    drafter: str
    """URI of the first drafter."""
    weights: str
    """URI of the served weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A running suite."""

    token: str
    """Token that marks its processes."""
    directory: Path
    """Its private files, which are deleted at the end."""
    logs: Path
    services: Mapping[str, str]
    """Addresses by name: gateway, gateway-1, coordinator, cache and tuner."""
    proxy: Proxy
    """Proxy that clients connect to, each at its own port."""
    http: Mapping[str, str] = field(default_factory=dict)
    """URLs of the gateways, by name."""
    store: Store | None = None
    """Location of drafters, checkpoints and weights; None for this machine's disks."""
    ended: Callable[[], Iterable[Ended]] = tuple
    """Returns the services that ended although nobody stopped them."""


@asynccontextmanager
async def running(directory: Path, *, seed: int, store: Store | None = None) -> AsyncIterator[Suite]:
    """
    Run a suite within the block; logs are written to `directory`, and without a store also drafters and checkpoints.

    Raises:
        TltError: The suite did not start.
    """
    config = StackConfig(
        model=MODEL,
        workers=WORKERS,
        drafter=store.drafter if store else DRAFTER,
        liveness_s=LIVENESS_S,
        run_dir=directory,
        settings={name: dict(values) for name, values in SETTINGS.items()},
    )
    if store:
        config.settings["worker"] |= {
            "drafter_dir": f"{store.url}/drafters",
            "checkpoint_dir": f"{store.url}/checkpoints",
        }
    async with AsyncExitStack() as parts:
        stack = await _started(parts, config)
        addresses, second_gateway = await parts.enter_async_context(_second_gateway(stack))
        second = addresses["grpc"]
        proxy = Proxy((stack.endpoint, second), seed=seed)
        await parts.enter_async_context(proxy.listening(ports=CLIENTS))
        services = {
            "gateway": stack.endpoint,
            SECOND_GATEWAY: second,
            "coordinator": stack.coordinator,
            "cache": stack.cache,
            "tuner": stack.tuner,
        }
        yield Suite(
            token=stack.token,
            directory=stack.home,
            logs=stack.logs,
            services=services,
            proxy=proxy,
            http={"gateway": stack.http_url, SECOND_GATEWAY: f"http://{addresses['rollout_http']}"},
            store=store,
            ended=lambda: (*stack.ended, *second_gateway.ended),
        )


async def _started(parts: AsyncExitStack, config: StackConfig) -> Stack:
    """Start the stack, retrying if the machine is so busy that Ray gives up."""
    for _ in range(STARTS - 1):
        try:
            return await parts.enter_async_context(Stack(config, restarts=True))
        except TltError as error:
            if RAY_GAVE_UP not in error.message:
                raise
    return await parts.enter_async_context(Stack(config, restarts=True))


@asynccontextmanager
async def _second_gateway(stack: Stack) -> AsyncIterator[tuple[Mapping[str, str], Supervised]]:
    """Run another gateway of the suite, supervised as by `tlt up`; yield its addresses by kind, and the process."""
    home = Home(directory=stack.home, data=stack.data, token=stack.token, leave=lambda: None)
    settings = {
        "listen": f"{HOST}:0",
        "metrics_port": "0",
        "http.listen": f"{HOST}:0",
        "coordinator": stack.coordinator,
        "gateway_id": SECOND_GATEWAY,
        "spool_dir": str(home.weights),
        "spool_shared": "true",
        "port_file": str(home.addresses(SECOND_GATEWAY)),
        **spelled(SETTINGS["gateway"]),
    }
    process = Supervised(SECOND_GATEWAY, lambda fixed: serve("gateway", {**settings, **fixed}), home)
    async with asyncio.TaskGroup() as owner:
        owner.create_task(process.run(), name=SECOND_GATEWAY)
        try:
            yield await process.addresses(), process
        finally:
            await process.stop()
