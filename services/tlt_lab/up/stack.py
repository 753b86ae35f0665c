"""The whole suite on one machine, for as long as a block lasts."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tlt_common.errors import UnavailableError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire
from tlt_lab.up.config import HOST, StackConfig, check
from tlt_lab.up.home import Home, guarded
from tlt_lab.up.processes import START_S, Command, Supervised, serve
from tlt_worker.fleet import FleetSpec

ENGINES_S = 900.0
"""Longest wait for all engines: one takes 20 s on a quiet machine and five minutes on a crowded one."""
JOIN_S = 30.0
"""Longest wait for workers that serve to be known to the coordinator."""


class Stack:
    """
    Starts everything on entry and leaves no process and no file on exit, however the block ends.

    Inside the block the addresses are set. When a part fails for good the block is cancelled and its error raised.

    Args:
        say: Told in one line what is being waited for.
    """

    endpoint: str
    """host:port of tlt.rollout.v1."""
    coordinator: str
    cache: str
    tuner: str
    status_url: str
    home: Path
    """Private files of the run; gone afterwards."""
    data: Path
    """Checkpoints and drafters."""
    logs: Path
    token: str
    """Carried by every process of the run in its environment."""

    def __init__(self, config: StackConfig, *, say: Callable[[str], None] = lambda _: None) -> None:
        self._config = config
        self._say = say
        self._context: AbstractAsyncContextManager[None] | None = None
        self._home: Home | None = None

    @property
    def metrics(self) -> Mapping[str, str]:
        """Prometheus addresses of the processes that are there now. Spot trainers come last and may move."""
        known = self._home.all_addresses() if self._home else {}
        return {name: addresses["metrics"] for name, addresses in sorted(known.items()) if "metrics" in addresses}

    async def __aenter__(self) -> Self:
        """
        Start and wait until every worker serves.

        Raises:
            ConfigError: An option is wrong, or a part refused its configuration.
            UnavailableError: A part did not come up in time.
        """
        check(self._config)
        self._context = self._live()
        await self._context.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._context is not None  # noqa: S101 - entered
        return await self._context.__aexit__(kind, error, trace)

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[None]:
        try:
            async with guarded(self._config.run_dir) as home, asyncio.TaskGroup() as owners:
                running: list[Supervised] = []
                try:
                    await self._start(home, owners, running)
                    yield
                finally:
                    home.leave()
                    await _stop(running)
        except BaseExceptionGroup as group:
            raise _first(group) from None

    async def _start(self, home: Home, owners: asyncio.TaskGroup, running: list[Supervised]) -> None:
        def launch(name: str, command: Command, *, start_s: float = START_S) -> Supervised:
            process = Supervised(name, command, home, start_s=start_s)
            running.append(process)
            owners.create_task(process.run(), name=name)
            return process

        self.home, self.data, self.logs, self.token = home.directory, home.data, home.logs, home.token
        self._home = home
        self._say("starting coordinator, cache and tuner")
        first = [launch(name, self._service(name, home)) for name in ("coordinator", "cache", "tuner")]
        coordinator, cache, tuner = [await process.addresses() for process in first]
        self.coordinator, self.cache, self.tuner = coordinator["grpc"], cache["grpc"], tuner["grpc"]
        self.status_url = f"http://{coordinator['http']}/status"
        gateway = launch("gateway", self._service("gateway", home, coordinator=self.coordinator))
        workers = launch("workers", self._fleet(home), start_s=ENGINES_S)
        self.endpoint = (await gateway.addresses())["grpc"]
        await self._publish_drafter()
        self._say(f"starting {self._config.workers} engines; the model is loaded and checked, which takes a while")
        await workers.addresses()
        await self._until_all_joined()

    def _service(self, name: str, home: Home, **settings: str) -> Command:
        defaults = {"metrics_port": "0", "listen": f"{HOST}:0", **settings}
        endpoint, coordinator, status = self._config.ports
        match name:
            case "coordinator":
                defaults |= {"listen": f"{HOST}:{coordinator}", "http_listen": f"{HOST}:{status}"}
                defaults["state_dir"] = str(home.data / "coordinator")
            case "gateway":
                defaults |= {"listen": f"{HOST}:{endpoint}", "spool_dir": str(home.directory), "spool_shared": "true"}
            case "cache":
                defaults |= {"redis": self._config.redis, "redis_socket": str(_redis_socket(home))}
            case "tuner":
                # The cache's own; while it is away the tuner goes on in memory.
                redis = self._config.redis
                defaults["redis"] = f"unix://{_redis_socket(home)}" if redis == "embedded" else redis
        wanted = self._config.settings.get(name, {})
        return lambda fixed: serve(name, {**defaults, **wanted, **fixed, "port_file": str(home.addresses(name))})

    def _fleet(self, home: Home) -> Command:
        settings = self._config.settings
        worker = {
            "model": str(self._config.model.resolve()),
            "coordinator": self.coordinator,
            "cache": self.cache,
            "tuner": self.tuner,
            "metrics_port": 0,
            "drafter_dir": str(home.data / "drafters"),
            "checkpoint_dir": str(home.data / "checkpoints"),
            **settings.get("worker", {}),
        }
        spec = FleetSpec(
            worker=worker,
            trainer=dict(settings.get("trainer", {})),
            replicas=self._config.workers,
            cores_per_worker=self._config.cores_per_worker,
            directory=home.directory,
            logs=home.logs,
            port_file=home.addresses("workers"),
        )
        path = home.directory / "fleet.json"
        path.write_text(spec.model_dump_json())
        return lambda _: [sys.executable, "-m", "tlt_worker.placement", str(path)]

    async def _publish_drafter(self) -> None:
        if self._config.drafter is None:
            return
        request = wire.pb.PublishDrafterRequest(uri=str(self._config.drafter.resolve()), worker_id="given")
        async with connect(self.coordinator) as channel:
            with translated():
                await wire.Stub(channel).PublishDrafter(request, timeout=10.0)

    async def _until_all_joined(self) -> None:
        try:
            async with asyncio.timeout(JOIN_S), connect(self.coordinator) as channel:
                with translated():
                    async for message in wire.Stub(channel).WatchFleet(wire.pb.WatchFleetRequest()):
                        if len(message.members) >= self._config.workers:
                            return
        except TimeoutError:
            pass
        raise UnavailableError(f"not all workers told the coordinator within {JOIN_S:g} s that they serve")


def _redis_socket(home: Home) -> Path:
    return home.directory / "redis.sock"


async def _stop(running: list[Supervised]) -> None:
    """The gateway first, so that nobody is let in; then the workers; then what they talk to."""
    order = {"gateway": 0, "workers": 1}
    for rank in range(3):
        leaving = [process for process in running if order.get(process.name, 2) == rank]
        await asyncio.gather(*(process.stop() for process in leaving))


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that began it; the others are its consequences."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
