"""`tlt serve worker`: one worker by itself. Serve's replicas use the same `live`."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Never

from tlt_common.domain.strategy import arms_named
from tlt_common.rpc.access import Roles
from tlt_common.rpc.addresses import require_free
from tlt_common.rpc.app import run_app
from tlt_common.rpc.drain import Drain
from tlt_common.rpc.server import Service, internal, serving
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import worker as wire
from tlt_worker.beside import Trainer, beside
from tlt_worker.config import WorkerConfig
from tlt_worker.cores import pin
from tlt_worker.engine.base import Engine
from tlt_worker.graphs.acceptance import default_arms
from tlt_worker.servicer import WorkerServicer
from tlt_worker.worker import Worker

log = get_logger(__name__)

CALLERS = Roles(dict.fromkeys(wire.METHODS, ("gateway",)))


def run(config: WorkerConfig) -> None:
    """Serve until SIGTERM."""
    if config.cores:
        pin(config.cores)
    drain = draining()
    leave = partial(drain.complete, config.drain_s) if config.drain_s else None
    run_app(config, lambda: live(config, engine_of(config), drain=drain), leave=leave)


def draining() -> Drain:
    """
    Make the orderly end of a worker: gateways stay connected, for what runs may get new weights meanwhile.

    Whoever owns the task that `live` runs in awaits `drain.complete(config.drain_s)` before cancelling it.
    """
    return Drain("Generate")


def engine_of(config: WorkerConfig) -> Engine:
    """
    Make the engine, not yet started. SGLang and torch are imported here, which takes seconds.

    Raises:
        ConfigError: The model directory is missing or not a supported checkpoint.
    """
    from tlt_worker.engine.device import detect
    from tlt_worker.engine.launch import EngineOptions
    from tlt_worker.engine.sglang import SglangEngine

    return SglangEngine(
        EngineOptions(
            model=config.model,
            drafter=config.drafter,
            drafter_kind=config.drafter_kind,
            draft_vocabulary=config.draft_vocabulary,
            dtype=config.dtype,
            max_running=config.max_running,
            max_total_tokens=config.max_total_tokens,
            context_length=config.context_length,
            cores=config.cores,
            threads=config.threads,
            tensor_parallel=config.tensor_parallel,
            gpu_memory=config.gpu_memory,
            graph_bytes=config.graph_bytes,
            arms=default_arms(detect().kind) if config.arms is None else arms_named(config.arms),
            epsilon=config.epsilon,
            speculate_below_requests=config.speculate_below_requests,
            group_below_requests=config.group_below_requests,
            trace=config.trace,
            trace_bytes=config.trace_bytes,
            ngram_bytes=config.ngram_bytes,
        )
    )


@contextmanager
def furnished(run_dir: Path | None) -> Iterator[Path]:
    """Make the directory of a run, without weights of an earlier one; None makes one that is removed afterwards."""
    if run_dir is None:
        with tempfile.TemporaryDirectory(prefix="tlt-worker-", ignore_cleanup_errors=True) as temporary:
            yield Path(temporary)
    else:
        run_dir.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(run_dir / "weights", ignore_errors=True)
        yield run_dir


async def live(
    config: WorkerConfig,
    engine: Engine,
    *,
    trainer: Callable[[WorkerConfig, Path], AbstractAsyncContextManager[Trainer | None]] = beside,
    drain: Drain | None = None,
    on_serving: Callable[[str], None] = lambda _address: None,
) -> Never:
    """
    Start the engine and serve until cancelled; then end everything that was started.

    `trainer` makes the spot trainer beside the engine; `on_serving` is called with the address once requests are taken.

    Raises:
        ConfigError: The address is taken, or the checkpoint is not supported.
        EngineError: The engine did not start, or died.
    """
    require_free(config.listen, named="listen")
    async with AsyncExitStack() as parts:
        run_dir = parts.enter_context(furnished(config.run_dir))
        parts.push_async_callback(engine.aclose)
        info = await engine.start()
        log.info("engine_started", kernels=info.device, model=info.model, max_running=info.max_running)
        beside_it = await parts.enter_async_context(trainer(config, run_dir))
        worker = Worker(config, engine, info, run_dir / "weights", trainer=beside_it)
        service = Service(name=wire.SERVICE_NAME, add=partial(wire.add_servicer, WorkerServicer(worker)))
        parts.callback(worker.weights.close)
        if drain:
            drain.when_begun(worker.retire)
        door = internal(config.tls, CALLERS)
        server = await parts.enter_async_context(serving(config.listen, service, door=door, drain=drain))
        address = f"{config.advertise or config.listen.rpartition(':')[0]}:{server.port}"
        on_serving(address)
        await worker.run(address)
