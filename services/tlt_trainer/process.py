"""One trainer process: load what was learned, serve the worker, train when told to, leave nothing unsaved."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Never

from tlt_common.errors import UnavailableError
from tlt_common.rpc.access import Roles
from tlt_common.rpc.channel import connect
from tlt_common.rpc.server import Service, internal, serving
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import trainer as wire
from tlt_trainer.checkpoint import Checkpoints
from tlt_trainer.config import TrainerConfig
from tlt_trainer.device import DeviceThread, torch_device
from tlt_trainer.drafter.files import META_FILE
from tlt_trainer.examiner import Examiner
from tlt_trainer.feed import Feed
from tlt_trainer.fleet import FleetClient
from tlt_trainer.following import Following
from tlt_trainer.learner import Learner
from tlt_trainer.lease import Permit
from tlt_trainer.loop import Loop
from tlt_trainer.policy import read_shape
from tlt_trainer.pool import FramePool
from tlt_trainer.publish import Sharing
from tlt_trainer.servicer import TrainerServicer
from tlt_trainer.source import CacheClient, Source
from tlt_trainer.storage import Storage

log = get_logger(__name__)

PARENT_LOOK_S = 1.0
"""A trainer whose worker died holds its device for so long at most."""


async def serve(config: TrainerConfig) -> None:
    """
    Serve until cancelled, or until the process that started this one is gone.

    Raises:
        ConfigError: The model or the checkpoint cannot be used.
    """
    parent = os.getppid()
    async with trainer_service(config):
        while os.getppid() == parent:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(PARENT_LOOK_S)
    log.warning("parent_died", parent=parent)


@asynccontextmanager
async def trainer_service(config: TrainerConfig) -> AsyncIterator[Loop]:
    """
    The service on its socket, ready to train. What was learned is saved at the end.

    Raises:
        ConfigError: The model or the checkpoint cannot be used.
    """
    device = DeviceThread(torch_device(config.device), threads=config.threads, nice=config.nice)
    checkpoints = Checkpoints(config.checkpoint_dir)
    async with AsyncExitStack() as stack:
        learner = await stack.enter_async_context(_learning(config, device, checkpoints))
        permit, pool = Permit(), FramePool(budget_bytes=config.data.pool_bytes)
        loop = await _loop(config, stack, learner, device, checkpoints, permit, pool)
        parts = await stack.enter_async_context(asyncio.TaskGroup())
        tasks = [
            parts.create_task(loop.run(), name="loop"),
            parts.create_task(checkpoints.run(), name="checkpoints"),
        ]
        if config.cache:
            channel = connect(config.cache, to="cache", tls=config.tls)
            cache = CacheClient(await stack.enter_async_context(channel))
            source = Source(cache, pool, learner.shape, wanted=permit.granted, arrived=loop.notice_data)
            taking = source.run(every_s=config.data.take_every_s, tokens=config.data.take_tokens)
            tasks.append(parts.create_task(taking, name="source"))
        stack.callback(_cancel, tasks)
        servicer = TrainerServicer(loop)
        service = Service(name=wire.SERVICE_NAME, add=lambda server: wire.add_servicer(servicer, server))
        door = internal(config.tls, Roles({}))  # its worker comes over the socket
        await stack.enter_async_context(serving(config.listen, service, uds=config.socket, door=door))
        log.info("trainer_serving", socket=str(config.socket), device=str(device.torch))
        yield loop


def _cancel(tasks: list[asyncio.Task[Never]]) -> None:
    for task in tasks:
        task.cancel()


@asynccontextmanager
async def _learning(config: TrainerConfig, device: DeviceThread, checkpoints: Checkpoints) -> AsyncIterator[Learner]:
    """A learner that goes on where the last one was, and is saved at the end."""
    learner = Learner(read_shape(config.model), device.torch)
    snapshot = await asyncio.to_thread(checkpoints.newest, learner.shape)
    if snapshot is not None:
        learner.restore(snapshot)
        log.info("checkpoint_loaded", steps=learner.counters.steps, base=learner.counters.base_version)
    loaded = learner.counters
    try:
        yield learner
    finally:
        device.close()  # the micro-step that runs is the last
        if learner.counters != loaded:
            try:
                checkpoints.write(learner.snapshot())
            except UnavailableError as error:
                log.warning("checkpoint_failed", error=error.message)


async def _loop(
    config: TrainerConfig,
    stack: AsyncExitStack,
    learner: Learner,
    device: DeviceThread,
    checkpoints: Checkpoints,
    permit: Permit,
    pool: FramePool,
) -> Loop:
    examiner = Examiner(
        learner,
        device,
        pool,
        tokens=config.data.held_out_tokens,
        batch_tokens=config.data.batch_tokens,
        allowed=permit.holds,
    )
    sharing = None
    if config.coordinator:
        channel = connect(config.coordinator, to="coordinator", tls=config.tls)
        fleet = FleetClient(await stack.enter_async_context(channel), config.worker_id)
        sharing = Sharing(
            fleet,
            Storage(f"{config.drafter_dir.rstrip('/')}/{config.worker_id}", mark=META_FILE),
            learner,
            Following(fleet, learner, examiner),
            worker_id=config.worker_id,
            settings=config.publish,
        )
    feed = Feed(pool, limit_tokens=config.data.batch_tokens, step_s=config.step_s, seed=config.worker_id)
    return Loop(learner, device, permit, feed, examiner, checkpoints, sharing, config)
