"""The whole suite on one machine, running for the duration of a block."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tlt_cache.config import REDIS_SOCKET
from tlt_common.errors import TltError, UnavailableError
from tlt_common.rpc.channel import connect
from tlt_common.telemetry.optional import kept_running
from tlt_local.addresses import HOST
from tlt_local.configuration.certificates import certificate_of
from tlt_local.configuration.config import StackConfig, check
from tlt_local.configuration.settings import spelled
from tlt_local.fleet import fleet_of
from tlt_local.readiness import publish_drafter, until_joined, until_loaded
from tlt_local.supervision.home import Home, guarded
from tlt_local.supervision.kept_logs import KeptLogs
from tlt_local.supervision.liveness_probe import LivenessProber
from tlt_local.supervision.log_rotation import rotate_all
from tlt_local.supervision.processes import START_S, Command, Ended, Supervised, serve
from tlt_local.supervision.start_watch import StartWatch
from tlt_worker.placement.local import FleetSpec

TOKENIZER = "tokenizer.json"
ENGINES_S = 900.0
"""Time limit, in seconds, for all engines to start. One takes 20 s on an idle machine, five minutes on a busy one."""


class Stack:
    """
    Starts everything on entry and leaves no process or file on exit, however the block ends, except the logs of a
    failed start.

    Inside the block the addresses are set. If a part fails permanently, the block is cancelled and the part's error
    raised.

    Args:
        say: Called with one line about the start at least every few seconds, and about why it fails.
        restarts: Whether to restart a part that ends by itself, as `tlt up` does; otherwise this counts as a permanent
            failure, so that tests and measurements notice it.
    """

    endpoint: str
    """host:port of tlt.rollout.v1."""
    coordinator: str
    cache: str
    tuner: str
    page_url: str
    http_url: str
    """URL of the rollout endpoint over HTTP; empty if disabled."""
    home: Path
    """Private files of the run; deleted afterwards."""
    data: Path
    """Checkpoints and drafters."""
    logs: Path
    token: str
    """Set in the environment of every process of the run."""

    def __init__(
        self, config: StackConfig, *, say: Callable[[str], None] = lambda _: None, restarts: bool = False
    ) -> None:
        self._config = config
        self._say = say
        self._restarts = restarts
        self._running: list[Supervised] = []
        self._workers: FleetSpec | None = None
        self._context: AbstractAsyncContextManager[None] | None = None
        self._home: Home | None = None

    @property
    def metrics(self) -> Mapping[str, str]:
        """Prometheus addresses of the running processes, by name. Spot trainers start last and may change theirs."""
        known = self._home.all_addresses() if self._home else {}
        return {name: addresses["metrics"] for name, addresses in sorted(known.items()) if "metrics" in addresses}

    @property
    def ended(self) -> tuple[Ended, ...]:
        """Parts that ended although nobody stopped them: services each time, workers the last time."""
        services = [ended for process in self._running for ended in process.ended]
        if why := self._failure():
            services.append(Ended(name="a worker", why=why))
        return tuple(services)

    async def __aenter__(self) -> Self:
        """
        Start everything and wait until every worker serves.

        Raises:
            ConfigError: An option is invalid, or a part refused its configuration.
            UnavailableError: A part did not start in time.
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
        logs = KeptLogs()
        try:
            async with guarded(self._config.run_dir) as home, asyncio.TaskGroup() as owners:
                watch = StartWatch(home, self._say, self._failure)
                self._running = running = list[Supervised]()
                prober = LivenessProber(home, liveness_s=self._config.liveness_s, tls=self._config.tls is not None)
                beside = (
                    owners.create_task(kept_running("prober", prober.run), name="prober"),
                    owners.create_task(kept_running("logs", partial(rotate_all, home.logs)), name="logs"),
                )
                try:
                    with logs.unless_started(home):
                        watching = owners.create_task(self._failing_aloud(watch.run), name="start")
                        await self._failing_aloud(partial(self._start, home, owners, running, watch))
                        watching.cancel()
                    for process in running:
                        process.suite_started = True
                    yield
                    self._require_unbroken()
                finally:
                    home.leave()
                    for task in beside:  # they never end by themselves, and processes that stop do not answer
                        task.cancel()
                    await _stop(running)
        except BaseExceptionGroup as group:
            raise logs.shown(_first(group)) from None
        except asyncio.CancelledError:
            logs.drop()
            raise

    def _failure(self) -> str:
        """Return why workers failed; empty if they have not, or are not started yet."""
        return self._workers.failure() if self._workers else ""

    async def _failing_aloud(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Say why a part fails at once: until its error is raised, all others are stopped, which takes a while."""
        try:
            await work()
        except TltError as error:
            self._say(f"{error.message}; stopping the other parts")
            raise

    async def _start(self, home: Home, owners: asyncio.TaskGroup, running: list[Supervised], watch: StartWatch) -> None:
        def launch(name: str, command: Command, *, start_s: float = START_S) -> Supervised:
            secrets = self._secrets(name, home)
            process = Supervised(
                name,
                command,
                home,
                start_s=start_s,
                secrets=secrets,
                suite_started=False,
                restarts=self._restarts,
            )
            running.append(process)
            owners.create_task(self._failing_aloud(process.run), name=name)
            return process

        def launch_service(name: str, **settings: str) -> Supervised:
            watch.expect(name)
            return launch(name, self._service(name, home, **settings))

        self.home, self.data, self.logs, self.token = home.directory, home.data, home.logs, home.token
        self._home = home
        watch.say("starting coordinator, cache and tuner")
        services = [launch_service(name) for name in ("coordinator", "cache", "tuner")]
        coordinator, cache, tuner = [await process.addresses() for process in services]
        self.coordinator, self.cache, self.tuner = coordinator["grpc"], cache["grpc"], tuner["grpc"]
        scheme = "https" if self._config.tls else "http"
        page = coordinator.get("http")  # absent if its port was taken meanwhile
        self.page_url = f"{scheme}://{page}/" if page else ""
        count = self._config.placement.workers
        watch.say(f"starting the gateway and {count} worker{'' if count == 1 else 's'}")
        gateway = launch_service("gateway", coordinator=self.coordinator)
        for rank in range(count):
            watch.expect(f"worker-{rank}", host="workers", phase="importing Ray")
        workers = launch("workers", self._fleet(home), start_s=ENGINES_S)
        addresses = await gateway.addresses()
        self.endpoint = addresses["grpc"]
        self.http_url = f"{scheme}://{addresses['rollout_http']}" if "rollout_http" in addresses else ""
        own = certificate_of(self._config.tls, "admin")
        async with connect(self.coordinator, to="coordinator", tls=own) as channel:
            # Before the engines start: each receives it when it joins.
            first = await publish_drafter(channel, self._config.drafter_uri) if self._config.drafter else None
            await workers.addresses()
            await until_joined(channel, count)
            if first is not None:
                watch.expect("drafter", phase="workers load it")
                await until_loaded(channel, first)
                watch.done("drafter")

    def _require_unbroken(self) -> None:
        """
        Raises:
            UnavailableError: A part that must keep running has ended by itself.
        """
        if self.ended and not self._restarts:
            raise UnavailableError("; ".join(map(str, self.ended)))

    def _service(self, name: str, home: Home, **settings: str) -> Command:
        liveness = {"liveness_s": str(self._config.liveness_s)}
        defaults = {"metrics_port": "0", "listen": f"{HOST}:0", **liveness, **settings}
        endpoint, coordinator, status, over_http = self._config.ports
        match name:
            case "coordinator":
                defaults |= {"listen": f"{HOST}:{coordinator}", "http_listen": f"{HOST}:{status}"}
                defaults["state_dir"] = str(home.data / "coordinator")
            case "gateway":
                defaults |= {"listen": f"{HOST}:{endpoint}", "spool_dir": str(home.weights), "spool_shared": "true"}
                defaults["http.listen"] = f"{HOST}:{over_http}"
                if (self._config.model / TOKENIZER).is_file():
                    defaults["http.tokenizer"] = str(self._config.model)
            case "cache":
                defaults["run_dir"] = str(home.directory)
        defaults |= spelled({**self._tls(name), **self._config.settings.get(name, {})})
        return lambda fixed: serve(name, {**defaults, **fixed, "port_file": str(home.addresses(name))})

    def _secrets(self, name: str, home: Home) -> dict[str, str]:
        """Return a service's settings that may contain a password, which other users could read on a command line."""
        redis = self._config.redis.get_secret_value()
        match name:
            case "cache":
                return {"TLT_CACHE_REDIS": redis}
            case "tuner":
                # The cache's Redis; while it is unreachable, the tuner works in memory.
                return {"TLT_TUNER_REDIS": f"unix://{home.directory / REDIS_SOCKET}" if redis == "embedded" else redis}
        return {}

    def _tls(self, component: str) -> dict[str, Any]:
        """Return the TLS settings of a service; empty for plain text."""
        files = certificate_of(self._config.tls, component)
        return {"tls": files.model_dump(mode="json")} if files else {}

    def _fleet(self, home: Home) -> Command:
        services = {"coordinator": self.coordinator, "cache": self.cache, "tuner": self.tuner}
        self._workers = spec = fleet_of(self._config, home, services)
        path = home.directory / "fleet.json"
        path.write_text(spec.model_dump_json())
        return lambda _: [sys.executable, "-m", "tlt_worker.placement.serve", str(path)]


async def _stop(running: list[Supervised]) -> None:
    """Stop the gateway first, so that no request is admitted, then the workers, then the services they call."""
    order = {"gateway": 0, "workers": 1}
    for rank in range(3):
        leaving = [process for process in running if order.get(process.name, 2) == rank]
        await asyncio.gather(*(process.stop() for process in leaving))


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error that caused the others."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
