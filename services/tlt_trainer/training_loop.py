"""
The main loop of a spot trainer: idle until a lease is granted, training while it is held and there is data.

All computation consists of short calls on the device, one at a time, and the lease is checked before each, so that
taking the device back waits for at most one call. Weights, optimizer and data stay in memory between leases.
`DrafterSharing` reads, writes and publishes drafters concurrently; it takes turns with this loop in using the learner.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Never

import torch

from tlt_common.domain.fleet import TrainingProgress
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion
from tlt_common.errors import WeightsError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_trainer.data.feed import Feed
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.data.frame_pool import FramePool
from tlt_trainer.data.pack import collate
from tlt_trainer.learner import Learner
from tlt_trainer.lease.device import TrainingDevice
from tlt_trainer.lease.draft_tokens import DraftTokens
from tlt_trainer.lease.learner_turn import LearnerTurn, Occupation
from tlt_trainer.lease.lease_times import LeaseTimes
from tlt_trainer.lease.pieces import snapshot_of, stepped
from tlt_trainer.lease.policy_reading import PolicyReader
from tlt_trainer.lease.short_memory import ShortMemory
from tlt_trainer.lease.training_lease import TrainingLease
from tlt_trainer.sharing.decision import TrainingDecisions
from tlt_trainer.sharing.drafter_sharing import DrafterSharing
from tlt_trainer.sharing.evaluator import Evaluator
from tlt_trainer.sharing.rest import Rest
from tlt_trainer.store.checkpoints import Checkpoints

log = get_logger(__name__)

POLL_S = 1.0
"""Seconds between checks for an expired lease while there is no data. The device is free meanwhile."""
BROKEN_BATCHES = 8
"""This many consecutive batches without a finite loss mean that the weights are broken, not the data."""


class TrainingLoop:
    """One trainer. All methods must be called in one event loop. Without `sharing`, drafters are not exchanged."""

    def __init__(
        self,
        learner: Learner,
        device: TrainingDevice,
        turn: LearnerTurn,
        lease: TrainingLease,
        feed: Feed,
        tokens: DraftTokens,
        evaluator: Evaluator,
        checkpoints: Checkpoints,
        sharing: DrafterSharing | None,
        decisions: TrainingDecisions,
        rest: Rest,
        pool: FramePool,
        memory: ShortMemory,
        *,
        checkpoint_every_s: float,
    ) -> None:
        self._learner, self._device, self._turn = learner, device, turn
        self._times = LeaseTimes()
        self._policy = PolicyReader(learner, device, turn, lease)
        self._lease = lease
        self._feed, self._tokens = feed, tokens
        self._evaluator, self._decisions = evaluator, decisions
        self._checkpoints, self._sharing = checkpoints, sharing
        self._rest, self._pool, self._memory = rest, pool, memory
        self._checkpoint_every_s = checkpoint_every_s
        self._arrived = asyncio.Event()
        self._newest: DrafterVersion | None = None  # the fleet's drafter, as the worker knows it
        self._training = False
        self._counted_s = 0.0  # seconds of training in the metric
        self._loss = 0.0
        self._broken = 0
        self._is_short = False  # an allocation failed under this lease
        self._saved_at_s = 0.0  # in seconds of training
        self._saved_steps = learner.counters.steps

    @property
    def progress(self) -> TrainingProgress:
        """Current training progress."""
        counters, own = self._learner.counters, self._decisions.own
        return TrainingProgress(
            training=self._training,
            steps=counters.steps,
            tokens=counters.tokens,
            training_s=self._device.trained_s,
            loss=self._loss,
            held_out_top1=own.top1 if own else 0.0,
            drafter_version=counters.base_version,
            policy_version=self._rest.policy,
            resting=self._rest.holds,
            gain=self._decisions.gain_per_s,
            passes=self._pool.passes,
            problem=self._sharing.problem if self._sharing else "",
        )

    def notice_data(self) -> None:
        """Signal that frames have arrived."""
        self._arrived.set()

    async def start(
        self, epoch: Epoch, ttl_s: float, policy: Path, version: PolicyVersion, *, newest: DrafterVersion | None = None
    ) -> None:
        """
        Begin or extend a lease. Load the policy's embedding and head first, if they changed.

        Args:
            epoch: Fencing token.
            ttl_s: Seconds until the lease ends.
            policy: Directory of the policy's weights.
            version: Version of the policy.
            newest: Newest drafter of the fleet; None if unknown.

        Raises:
            StaleEpochError: A newer lease was seen, or this one was revoked.
            WeightsError: The policy cannot be read; the lease is not held.
        """
        self._lease.start(epoch, ttl_s)
        self._times.granted(epoch)
        self._newest = newest
        await self._policy.read(epoch, policy, version)
        self._rest.serve(version)
        self._lease.grant()

    def prepare(self, policy: Path, version: PolicyVersion) -> None:
        """Begin to read these weights into host memory, for the next lease that names them."""
        self._policy.prepare(policy, version)

    async def preempt(self, epoch: Epoch) -> TrainingProgress:
        """
        End a lease; return once the device is free.

        Raises:
            StaleEpochError: A newer lease is held.
        """
        asked_s, doing = asyncio.get_running_loop().time(), self._turn.doing
        self._lease.preempt(epoch)
        self._training = False
        await self._device.free()
        self._times.freed(epoch, doing, asyncio.get_running_loop().time() - asked_s)
        self._count_seconds()
        return self.progress

    async def run(self) -> Never:
        """
        Train under every lease until cancelled.

        Raises:
            WeightsError: No batch gives a finite loss anymore.
        """
        while True:
            await self._lease.granted.wait()
            log.info("lease_begun", epoch=self._lease.epoch)
            self._share()
            self._is_short = False
            self._rest.look_around()
            while self._lease.holds() and not self._is_short and not self._rest.holds:
                group = self._feed.next()
                if group is None:
                    await self._wait_for_data()
                    continue
                await self._train(group)
                await self._periodic_work()
            self._training = False
            self._lease.settle()
            await self._end_lease()
            await self._sit_out()

    async def _train(self, group: tuple[TrainingFrame, ...]) -> None:
        """Run one micro-step."""
        self._training = True
        took_s = 0.0
        try:
            await self._tokens.prepare()
            async with self._turn.of(Occupation.TRAINING):
                if not self._lease.holds():  # lost while another task had its turn
                    return
                await self._step()
                if not self._lease.holds():
                    return
                self._loss, took_s = await self._device.run(self._micro_step, group)
                await self._step()
        except WeightsError as error:
            self._broken += 1
            log.warning("batch_broken", error=error.message)
            if self._broken >= BROKEN_BATCHES:
                raise
            return
        except torch.OutOfMemoryError:
            self._is_short = True
        finally:
            self._count_seconds()
        if self._is_short:  # after the exception, whose traceback holds the step's tensors
            await self._memory.give_up(Occupation.TRAINING)
            return
        self._broken = 0
        tokens = sum(frame.header.token_count for frame in group)
        self._feed.pace(tokens, took_s)
        self._decisions.trained(tokens)
        metrics.TRAINER_BASE_VERSION.set(self._learner.counters.base_version)
        metrics.TRAINING_TOKENS.inc(tokens)
        metrics.TRAINING_LOSS.set(self._loss)

    async def _step(self) -> None:
        await stepped(self._device, self._learner, begins=self._times.begin, allowed=self._lease.holds)

    async def _sit_out(self) -> None:
        """Wait while a lease is held but there is nothing to do."""
        epoch = self._lease.epoch
        while (  # noqa: ASYNC110 - expiry is not an event
            self._lease.holds() and self._lease.epoch == epoch and (self._is_short or self._rest.holds)
        ):
            await asyncio.sleep(POLL_S)

    async def _periodic_work(self) -> None:
        """Score, publish and save when due. Called between micro-steps."""
        if self._decisions.score_in <= 0 and self._lease.holds():
            await self._examine()
        if self._decisions.shares:
            self._share()
        if self._device.trained_s - self._saved_at_s >= self._checkpoint_every_s:
            await self._save(self._lease.holds)

    async def _examine(self) -> None:
        self._decisions.scoring()
        published, scores = self._learner.base(), None
        try:
            await self._tokens.renew()
            async with self._turn.of(Occupation.SCORING):
                scores = await self._evaluator.scores(None, *((published,) if published is not None else ()))
        except torch.OutOfMemoryError:
            self._is_short = True
        if self._is_short:
            await self._memory.give_up(Occupation.SCORING)
        if scores is None:
            return
        self._rest.look_around()
        self._decisions.scored(
            scores[0],
            scores[1] if published is not None else None,
            learned_tokens=self._learner.counters.tokens,
            trained_s=self._device.trained_s,
            pass_tokens=self._pool.training_tokens,
        )
        self._rest.decided()
        metrics.HELD_OUT_TOP.set(scores[0].top1)
        for drafter, score in zip(("own", "published"), scores, strict=False):
            metrics.HELD_OUT_LENGTH.labels(drafter=drafter).set(score.accept_length)

    def _share(self) -> None:
        """Publish weights that are better than the fleet's drafter, or follow a newer drafter."""
        if not self._offer(self._decisions.share(now_s=asyncio.get_running_loop().time())) and self._sharing:
            self._sharing.catch_up(self._newest)

    def _offer(self, is_due: bool) -> bool:
        """Request publication of the trainer's own weights if it is due; return whether it was requested."""
        own = self._decisions.own
        if not is_due or own is None or self._sharing is None:
            return False
        self._sharing.offer(own, self._decisions.base)
        return True

    async def _end_lease(self) -> None:
        log.info("lease_over", epoch=self._lease.epoch, steps=self._learner.counters.steps)
        self._offer(self._decisions.lease_over(learned=self._learner.counters.own_steps > 0))
        if self._learner.counters.steps != self._saved_steps:
            # A copy of memory, not a computation; the next lease does not wait for it.
            await self._save(lambda: not self._lease.granted.is_set())

    async def _save(self, allowed: Callable[[], bool]) -> None:
        async with self._turn.of(Occupation.SAVING):
            state = self._learner.state(optimizer=self._checkpoints.wants_optimizer)
            snapshot = await snapshot_of(self._device, state, allowed=allowed)
        if snapshot is not None:
            self._saved_at_s, self._saved_steps = self._device.trained_s, snapshot.counters.steps
            self._checkpoints.offer(snapshot)

    async def _wait_for_data(self) -> None:
        self._training = False
        await self._device.free()  # counts what a GPU was still computing
        self._count_seconds()
        try:
            async with asyncio.timeout(POLL_S):
                await self._arrived.wait()
        except TimeoutError:
            return
        finally:
            self._arrived.clear()

    def _count_seconds(self) -> None:
        metrics.TRAINING_SECONDS.inc(self._device.trained_s - self._counted_s)
        self._counted_s = self._device.trained_s

    def _micro_step(self, group: tuple[TrainingFrame, ...]) -> tuple[float, float]:
        """Return the loss, and the seconds that a Preempt waits: the whole call, including work on the host."""
        self._times.begin()
        began_s = self._device.now()
        pack = collate(group, self._learner.device)
        with self._device.training():
            loss = self._learner.micro_step(pack, steps=False)
        return loss, self._device.now() - began_s
