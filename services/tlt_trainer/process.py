"""The trainer process: loads the checkpoint, serves the worker, trains under a lease, and saves before it exits."""

import asyncio
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Never

from tlt_common.aio import backoff
from tlt_common.drafter.format import DrafterFormat, Json
from tlt_common.drafter.meta import META_FILE
from tlt_common.drafter.reading import format_of
from tlt_common.drafter.token_counts import TokenCounts
from tlt_common.errors import ConfigError, UnavailableError, WeightsError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.security.access import Roles
from tlt_common.rpc.server import Service, internal, serving
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import trainer as wire
from tlt_trainer.config import POOL_BYTES, TrainerConfig
from tlt_trainer.data.feed import STEP_S, Feed
from tlt_trainer.data.frame_pool import FramePool
from tlt_trainer.data.frame_source import CacheClient, FrameSource
from tlt_trainer.data.intake import LOOK_EVERY_S, TAKE_EVERY_S, TAKE_TOKENS
from tlt_trainer.drafter.own_head import read_own_head
from tlt_trainer.drafter.rope import require_rope
from tlt_trainer.drafter.shared_weights import layers_of, read_config, trained_format
from tlt_trainer.learned import Snapshot
from tlt_trainer.learner import Learner
from tlt_trainer.lease.device import DeviceThread, limit_memory, make_nicer, torch_device
from tlt_trainer.lease.draft_tokens import DraftTokens
from tlt_trainer.lease.learner_turn import LearnerTurn
from tlt_trainer.lease.short_memory import ShortMemory
from tlt_trainer.lease.training_lease import TrainingLease
from tlt_trainer.lease.warm_up import warm_up
from tlt_trainer.servicer import TrainerServicer
from tlt_trainer.sharing.decision import TrainingDecisions, draft_cost
from tlt_trainer.sharing.drafter_registry import CoordinatorClient
from tlt_trainer.sharing.drafter_sharing import DrafterSharing
from tlt_trainer.sharing.drafter_sync import DrafterSync
from tlt_trainer.sharing.evaluator import Evaluator
from tlt_trainer.sharing.rest import Rest
from tlt_trainer.store.checkpoints import OPTIMIZER_EVERY, Checkpoints
from tlt_trainer.store.storage import Storage
from tlt_trainer.training_loop import TrainingLoop

log = get_logger(__name__)

RECENT_TOKENS = 2**20
"""Generated tokens by which draft tokens are chosen; older ones count less and less."""
PARENT_POLL_S = 1.0
"""Seconds between checks for the parent; a trainer whose worker died holds its device at most this long."""


async def serve(config: TrainerConfig) -> None:
    """
    Serve until cancelled, or until the process that started this one has exited.

    Raises:
        ConfigError: The model or the checkpoint cannot be used.
    """
    parent = os.getppid()
    threads = ThreadPoolExecutor(thread_name_prefix="files", initializer=make_nicer, initargs=(config.nice,))
    asyncio.get_running_loop().set_default_executor(threads)  # files are read and written beside rollouts
    async with trainer_service(config):
        while os.getppid() == parent:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(PARENT_POLL_S)
    log.warning("parent_died", parent=parent)


@asynccontextmanager
async def trainer_service(config: TrainerConfig) -> AsyncIterator[TrainingLoop]:
    """
    Run the service on its socket, ready to train. Saves the training state on exit.

    Raises:
        ConfigError: The model or the checkpoint cannot be used.
    """
    device = DeviceThread(torch_device(config.device), threads=config.threads, nice=config.nice)
    limit_memory(device.torch, config.memory_share)
    policy = read_config(config.model)
    checkpoints = Checkpoints(config.checkpoint_dir, optimizer_every=OPTIMIZER_EVERY)
    async with AsyncExitStack() as stack:
        form = trained(policy, config)
        learner = await stack.enter_async_context(_learning(config.model, form, device, checkpoints))
        await device.run(warm_up, learner)
        said = TokenCounts(learner.form.vocab_size, recent_tokens=RECENT_TOKENS)
        lease, pool = TrainingLease(), FramePool(budget_bytes=POOL_BYTES, said=said)
        turn, feed = LearnerTurn(), _feed(config, pool)
        evaluator = Evaluator(
            learner,
            device,
            pool,
            tokens=config.publish.held_out_tokens,
            batch_tokens=lambda: feed.tokens,
            allowed=lease.holds,
        )
        decisions = TrainingDecisions(
            config.publish,
            draft_cost=draft_cost(learner.form, layers_of(policy)),
            plateau_evaluations=config.plateau_evaluations,
        )
        rest, memory = Rest(learner, pool, decisions), ShortMemory(learner, device, feed)
        sharing = await _sharing(config, stack, learner, device, turn, evaluator, decisions, memory)
        tokens = DraftTokens(learner, device, turn, said, allowed=lease.holds)
        loop = TrainingLoop(
            learner,
            device,
            turn,
            lease,
            feed,
            tokens,
            evaluator,
            checkpoints,
            sharing,
            decisions,
            rest,
            pool,
            memory,
            checkpoint_every_s=config.checkpoint_every_s,
        )
        parts = await stack.enter_async_context(asyncio.TaskGroup())
        tasks = [
            parts.create_task(loop.run(), name="loop"),
            parts.create_task(checkpoints.run(), name="checkpoints"),
        ]
        if sharing is not None:
            tasks.append(parts.create_task(sharing.run(), name="sharing"))
        if config.cache:
            channel = connect(config.cache, to="cache", tls=config.tls)
            cache = CacheClient(await stack.enter_async_context(channel))
            source = FrameSource(cache, pool, learner.form, wanted=lease.granted, arrived=loop.notice_data)
            taking = source.run(every_s=TAKE_EVERY_S, tokens=TAKE_TOKENS)
            tasks.append(parts.create_task(taking, name="source"))
            looking = source.look(rest.begun, every_s=LOOK_EVERY_S, tokens=TAKE_TOKENS)
            tasks.append(parts.create_task(looking, name="look"))
        stack.callback(_cancel, tasks)
        servicer = TrainerServicer(loop, decisions)
        service = Service(name=wire.SERVICE_NAME, add=lambda server: wire.add_servicer(servicer, server))
        security = internal(config.tls, Roles({}))  # its worker connects over the socket
        await stack.enter_async_context(serving(config.listen, service, uds=config.socket, security=security))
        log.info("trainer_serving", socket=str(config.socket), device=str(device.torch))
        yield loop


def _cancel(tasks: list[asyncio.Task[Never]]) -> None:
    for task in tasks:
        task.cancel()


@asynccontextmanager
async def _learning(
    model: Path, form: DrafterFormat, device: DeviceThread, checkpoints: Checkpoints
) -> AsyncIterator[Learner]:
    """
    Return a learner that continues from the newest checkpoint, otherwise from the model's own head.

    Saves it on exit.
    """
    learner = Learner(form, device.torch)
    if (head := await asyncio.to_thread(read_own_head, model, form)) is not None:
        learner.begin(head)
    snapshot = await _newest(checkpoints, learner.form)
    if snapshot is not None:
        learner.restore(snapshot)
        log.info("checkpoint_loaded", steps=learner.counters.steps, base=learner.counters.base_version)
    loaded = learner.counters
    try:
        yield learner
    finally:
        device.close()  # waits for the running micro-step
        if learner.counters != loaded:
            try:
                checkpoints.write(learner.snapshot())
            except (UnavailableError, WeightsError) as error:
                log.warning("checkpoint_failed", error=error.message)


def trained(policy: Json, config: TrainerConfig) -> DrafterFormat:
    """
    Return the format of the drafters to train, which the worker's engine runs.

    Raises:
        ConfigError: The policy has no drafters of this format.
    """
    layers = config.drafter_layers
    if (directory := config.drafter_format) is not None:
        try:
            form = format_of(read_config(directory), policy)
        except (ConfigError, WeightsError) as error:
            raise ConfigError(f"drafter_format: {error.message}", field="drafter_format") from error
        require_rope(form)
        return form
    try:
        return trained_format(
            policy, config.drafter_architecture, draft_vocabulary=config.draft_vocabulary, layers=layers
        )
    except WeightsError as error:
        raise ConfigError(f"drafter_layers: {error.message}", field="drafter_layers") from error


async def _newest(checkpoints: Checkpoints, form: DrafterFormat) -> Snapshot | None:
    """Read the newest valid checkpoint. Waits for unreadable storage, since starting over would lose training."""
    delays = backoff()
    while True:
        try:
            return await asyncio.to_thread(checkpoints.newest, form)
        except UnavailableError as error:
            log.warning("checkpoints_unavailable", error=error.message)
            await asyncio.sleep(next(delays))


def _feed(config: TrainerConfig, pool: FramePool) -> Feed:
    """Return the feed with the configured sizes."""
    return Feed(pool, limit_tokens=config.data.batch_tokens, step_s=STEP_S, seed=config.worker_id)


async def _sharing(
    config: TrainerConfig,
    stack: AsyncExitStack,
    learner: Learner,
    device: DeviceThread,
    turn: LearnerTurn,
    evaluator: Evaluator,
    decisions: TrainingDecisions,
    memory: ShortMemory,
) -> DrafterSharing | None:
    """Return the exchange of drafters with the fleet, or None without a coordinator."""
    if not config.coordinator:
        return None
    channel = connect(config.coordinator, to="coordinator", tls=config.tls)
    fleet = CoordinatorClient(await stack.enter_async_context(channel))
    return DrafterSharing(
        fleet,
        Storage(f"{config.drafter_dir.rstrip('/')}/{config.worker_id}", mark=META_FILE),
        learner,
        device,
        turn,
        DrafterSync(fleet, learner, device, turn, evaluator, memory),
        decisions,
        worker_id=config.worker_id,
    )
