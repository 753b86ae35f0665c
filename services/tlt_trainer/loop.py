"""
The life of a spot trainer: idle until a lease comes, training while it holds and there is data, idle again.

Everything that computes is one short call on the device at a time, and the lease is looked at before each. So taking
the device back waits for one call at most. Weights, optimizer and data stay in memory between leases.
"""

import asyncio
from pathlib import Path
from typing import Never

from tlt_common.domain.fleet import TrainingProgress
from tlt_common.domain.hidden import HiddenFrame
from tlt_common.domain.ids import Epoch, PolicyVersion
from tlt_common.errors import WeightsError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_trainer.batch import collate
from tlt_trainer.checkpoint import Checkpoints
from tlt_trainer.config import TrainerConfig
from tlt_trainer.device import Device
from tlt_trainer.examiner import Examiner
from tlt_trainer.feed import Feed
from tlt_trainer.learner import Learner
from tlt_trainer.lease import Permit
from tlt_trainer.policy import read_shared
from tlt_trainer.publish import Sharing, is_worth_sharing
from tlt_trainer.score import Score

log = get_logger(__name__)

LOOK_S = 1.0
"""While there is no data, a lease that ran out is noticed after so long. The device is free meanwhile."""
BROKEN_BATCHES = 8
"""So many batches in a row without a finite loss mean that the weights are at fault, not the data."""


class Loop:
    """
    One trainer. All methods belong to one event loop.

    Args:
        sharing: None: what is learned stays here.
    """

    def __init__(
        self,
        learner: Learner,
        device: Device,
        permit: Permit,
        feed: Feed,
        examiner: Examiner,
        checkpoints: Checkpoints,
        sharing: Sharing | None,
        config: TrainerConfig,
    ) -> None:
        self._learner = learner
        self._device = device
        self._permit = permit
        self._feed = feed
        self._examiner = examiner
        self._checkpoints = checkpoints
        self._sharing = sharing
        self._config = config
        self._arrived = asyncio.Event()
        self._policy: tuple[Path, PolicyVersion] | None = None
        self._training = False
        self._training_s = 0.0
        self._loss = 0.0
        self._broken = 0
        self._score: Score | None = None
        self._gained = False  # the score is news to the fleet
        self._scored_at_s = self._shared_at_s = self._saved_at_s = 0.0  # of training
        self._saved_steps = learner.counters.steps

    @property
    def progress(self) -> TrainingProgress:
        """How training goes."""
        counters = self._learner.counters
        return TrainingProgress(
            training=self._training,
            steps=counters.steps,
            tokens=counters.tokens,
            training_s=self._training_s,
            loss=self._loss,
            held_out_top1=self._score.top1 if self._score else 0.0,
            drafter_version=counters.base_version,
        )

    def notice_data(self) -> None:
        """Say that frames arrived."""
        self._arrived.set()

    async def start(self, epoch: Epoch, ttl_s: float, policy: Path, version: PolicyVersion) -> None:
        """
        Begin a lease, or extend the one held. Reads the policy's embedding and head where they changed.

        Raises:
            StaleEpochError: A newer lease was seen, or this one was taken back.
            WeightsError: The policy cannot be read; the lease is not held.
        """
        self._permit.start(epoch, ttl_s)
        if self._policy != (policy, version):
            try:
                await self._device.run(self._read_policy, policy)
            except WeightsError:
                if self._permit.epoch == epoch:
                    self._permit.preempt(epoch)
                raise
            self._policy = (policy, version)
        self._permit.grant()

    async def preempt(self, epoch: Epoch) -> TrainingProgress:
        """
        End a lease; return when the device is free.

        Raises:
            StaleEpochError: A newer lease is held.
        """
        self._permit.preempt(epoch)
        self._training = False
        await self._device.free()
        return self.progress

    async def run(self) -> Never:
        """
        Train under every lease that comes, until cancelled.

        Raises:
            WeightsError: No batch gives a finite loss any more.
        """
        while True:
            await self._permit.granted.wait()
            log.info("lease_begun", epoch=self._permit.epoch)
            await self._share()
            while self._permit.holds():
                group = self._feed.next()
                if group is None:
                    await self._wait_for_data()
                    continue
                await self._train(group)
                await self._look_up()
            self._training = False
            self._permit.settle()
            await self._end_lease()

    async def _train(self, group: tuple[HiddenFrame, ...]) -> None:
        """One micro-step."""
        self._training = True
        clock, steps = asyncio.get_running_loop(), self._learner.counters.steps
        began_s = clock.time()
        try:
            self._loss = await self._device.run(self._micro_step, group)
        except WeightsError as error:
            self._broken += 1
            log.warning("batch_broken", error=error.message)
            if self._broken >= BROKEN_BATCHES:
                raise
            return
        elapsed_s = clock.time() - began_s
        self._broken = 0
        self._training_s += elapsed_s
        self._feed.pace(elapsed_s)
        metrics.TRAINING_SECONDS.inc(elapsed_s)
        metrics.TRAINER_BASE_VERSION.set(self._learner.counters.base_version)
        metrics.TRAINING_TOKENS.inc(sum(frame.token_count for frame in group))
        metrics.TRAINING_STEPS.inc(self._learner.counters.steps - steps)
        metrics.TRAINING_LOSS.set(self._loss)

    async def _look_up(self) -> None:
        """Between two micro-steps: score, publish and save when it is time."""
        if self._training_s - self._scored_at_s >= self._config.score_every_s and self._permit.holds():
            await self._examine()
        if self._training_s - self._shared_at_s >= self._config.publish.every_s:
            await self._share()
        if self._training_s - self._saved_at_s >= self._config.checkpoint_every_s:
            await self._save()

    async def _examine(self) -> None:
        self._scored_at_s = self._training_s
        has_published = self._learner.counters.base_version > 0
        scores = await self._examiner.scores(None, *((self._learner.base(),) if has_published else ()))
        if scores is None:
            return
        self._score = scores[0]
        self._gained = is_worth_sharing(self._score, scores[1] if has_published else None, self._config.publish)
        metrics.HELD_OUT_TOP.set(self._score.top1)
        for drafter, score in zip(("own", "published"), scores, strict=False):
            metrics.HELD_OUT_LENGTH.labels(drafter=drafter).set(score.accept_length)

    async def _share(self) -> None:
        """Publish what is better than the fleet's drafter; else see whether somebody else has a better one."""
        self._shared_at_s = self._training_s
        if self._sharing is None:
            return
        if self._gained and self._score is not None:
            self._gained = False  # a score speaks for these weights once
            await self._sharing.publish(self._score)
        elif await self._sharing.follow():
            self._gained = False

    async def _end_lease(self) -> None:
        log.info("lease_over", epoch=self._permit.epoch, steps=self._learner.counters.steps)
        if self._gained:
            await self._share()
        if self._learner.counters.steps != self._saved_steps:
            await self._save()

    async def _save(self) -> None:
        self._saved_at_s, self._saved_steps = self._training_s, self._learner.counters.steps
        self._checkpoints.offer(await self._device.run(self._learner.snapshot))

    async def _wait_for_data(self) -> None:
        self._training = False
        try:
            async with asyncio.timeout(LOOK_S):
                await self._arrived.wait()
        except TimeoutError:
            return
        finally:
            self._arrived.clear()

    def _micro_step(self, group: tuple[HiddenFrame, ...]) -> float:
        return self._learner.micro_step(collate(group, self._learner.device))

    def _read_policy(self, policy: Path) -> None:
        self._learner.share(read_shared(policy, self._learner.shape, self._learner.device))
