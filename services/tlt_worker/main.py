"""`tlt serve worker`: one worker by itself. Serve's replicas use the same `live`."""

import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Never

from tlt_common.rpc.app import run_app
from tlt_common.rpc.server import Service, serving
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import worker as wire
from tlt_worker.beside import Trainer, beside
from tlt_worker.config import WorkerConfig, arm_named
from tlt_worker.cores import pin
from tlt_worker.engine.base import Engine
from tlt_worker.servicer import WorkerServicer
from tlt_worker.worker import Worker

log = get_logger(__name__)


def run(config: WorkerConfig) -> None:
    """Serve until SIGTERM."""
    if config.cores:
        pin(config.cores)
    run_app(config, lambda: live(config, engine_of(config)))


def engine_of(config: WorkerConfig) -> Engine:
    """
    Make the engine, not yet started. SGLang and torch are imported here, which takes seconds.

    Raises:
        ConfigError: The model directory is missing or not a supported checkpoint.
    """
    from tlt_worker.engine.launch import EngineOptions
    from tlt_worker.engine.sglang import SglangEngine

    return SglangEngine(
        EngineOptions(
            model=config.model,
            drafter=config.drafter,
            dtype=config.dtype,
            max_running=config.max_running,
            max_total_tokens=config.max_total_tokens,
            context_length=config.context_length,
            cores=config.cores,
            threads=config.threads,
            arms=tuple(arm_named(name) for name in config.arms),
        )
    )


async def live(
    config: WorkerConfig,
    engine: Engine,
    *,
    trainer: Callable[[WorkerConfig], AbstractAsyncContextManager[Trainer | None]] = beside,
    on_serving: Callable[[str], None] = lambda _address: None,
) -> Never:
    """
    Start the engine and serve until cancelled; then end everything that was started.

    `trainer` makes the spot trainer beside the engine; `on_serving` is called with the address once requests are taken.

    Raises:
        ConfigError: The address is taken, or the checkpoint is not supported.
        EngineError: The engine did not start, or died.
    """
    spool_dir = config.run_dir / "weights"
    shutil.rmtree(spool_dir, ignore_errors=True)
    async with AsyncExitStack() as parts:
        parts.push_async_callback(engine.aclose)
        info = await engine.start()
        log.info("engine_started", kernels=info.device, model=info.model, max_running=info.max_running)
        worker = Worker(config, engine, info, trainer=await parts.enter_async_context(trainer(config)))
        service = Service(name=wire.SERVICE_NAME, add=partial(wire.add_servicer, WorkerServicer(worker)))
        parts.callback(worker.weights.close)
        server = await parts.enter_async_context(serving(config.listen, service))
        address = f"{config.advertise or config.listen.rpartition(':')[0]}:{server.port}"
        on_serving(address)
        await worker.run(address)
