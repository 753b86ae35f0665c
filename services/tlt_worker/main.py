"""`tlt serve worker`: a single worker. Ray Serve replicas use the same `live`."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Never

from tlt_common.rpc.addresses import joined, require_free, split
from tlt_common.rpc.app import run_app
from tlt_common.rpc.drain import Drain
from tlt_common.rpc.security.access import Roles
from tlt_common.rpc.server import Service, internal, serving
from tlt_common.start_phase import enter, phase_file
from tlt_common.telemetry.log import get_logger
from tlt_common.weights.locked_directory import sweep
from tlt_common.wire import worker as wire
from tlt_worker.config import WorkerConfig
from tlt_worker.engine.base import Engine
from tlt_worker.hardware.cores import pin
from tlt_worker.lending.trainer import Trainer, spot_trainer
from tlt_worker.requests.startup import startup_prompts
from tlt_worker.servicer import WorkerServicer
from tlt_worker.worker import Worker

log = get_logger(__name__)

CALLERS = Roles({**dict.fromkeys(wire.METHODS, ("gateway",)), "FetchWeights": ("gateway", "worker")})


def run(config: WorkerConfig) -> None:
    """Serve until SIGTERM."""
    import uvloop

    if config.cores:
        pin(config.cores)
    # SGLang sets this policy when it is imported. Under it only uvloop's loops start child processes, as Ray's does.
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    drain = draining()
    leave = partial(drain.complete, config.drain_s) if config.drain_s else None
    run_app(config, lambda: live(config, engine_of(config), drain=drain), leave=leave)


def draining() -> Drain:
    """
    Return the drain of a worker. Gateways stay connected meanwhile, since running requests may receive new weights.

    The owner of the task that runs `live` awaits `drain.complete(config.drain_s)` before cancelling it.
    """
    return Drain()


def engine_of(config: WorkerConfig) -> Engine:
    """
    Create the engine without starting it. Once the files are checked, imports SGLang and torch, which takes seconds.

    Raises:
        ConfigError: An engine cannot run the model or the drafter.
    """
    from tlt_worker.checkpoints.drafter_format import require_drafter
    from tlt_worker.model.files import require_model

    phases = phase_file(config.port_file)
    enter("checking the checkpoint", phases)
    tensors = require_model(config.model, config.engine)
    require_drafter(config.engine, config.model)

    enter("importing PyTorch", phases)
    from tlt_worker.engine.sglang import SglangEngine

    return SglangEngine(
        config.model,
        config.engine.at_worker(config.worker_id),
        tensors=tensors,
        trains=config.trains,
        phase_file=phases,
    )


@contextmanager
def run_directory(run_dir: Path | None) -> Iterator[Path]:
    """
    Create the directory of a run and delete weights left there by a process that has ended.

    None creates a temporary directory.
    """
    if run_dir is None:
        with tempfile.TemporaryDirectory(prefix="tlt-worker-", ignore_cleanup_errors=True) as temporary:
            yield Path(temporary)
    else:
        run_dir.mkdir(parents=True, exist_ok=True)
        sweep(run_dir / "weights")
        yield run_dir


async def live(
    config: WorkerConfig,
    engine: Engine,
    *,
    trainer: Callable[[WorkerConfig, Path], AbstractAsyncContextManager[Trainer | None]] = spot_trainer,
    drain: Drain | None = None,
    on_serving: Callable[[str], None] = lambda _address: None,
) -> Never:
    """
    Start the engine and serve until cancelled, then stop everything that was started.

    `trainer` creates the spot trainer; `on_serving` is called with the address once requests are accepted.

    Raises:
        ConfigError: The address is in use, the checkpoint is not supported, or `startup_responses` does not fit it.
        EngineError: The engine did not start, or died.
    """
    require_free(config.listen, named="listen")
    async with AsyncExitStack() as parts:
        run_dir = parts.enter_context(run_directory(config.run_dir))
        startup = await asyncio.to_thread(startup_prompts, config)
        parts.push_async_callback(engine.aclose)
        info = await engine.start()
        log.info("engine_started", kernels=info.device, model=info.model, max_running=info.max_running)
        trainer_or_none = await parts.enter_async_context(trainer(config, run_dir))
        worker = Worker(config, engine, info, run_dir / "weights", trainer=trainer_or_none, startup=startup)
        drain = drain or Drain()
        drain.when_begun(worker.retire)
        servicer = WorkerServicer(worker, drain)
        service = Service(name=wire.SERVICE_NAME, add=partial(wire.add_servicer, servicer))
        parts.callback(worker.weights.close)
        parts.push_async_callback(worker.receiver.close)
        security = internal(config.tls, CALLERS)
        server = await parts.enter_async_context(serving(config.listen, service, security=security, drain=drain))
        parts.callback(servicer.close)
        address = joined(config.advertise or split(config.listen)[0], server.port)
        on_serving(address)
        await worker.run(address)
