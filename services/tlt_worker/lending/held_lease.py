"""
Lends the device to the trainer: Start when a lease is granted, Preempt when it ends; rollouts have priority.

The end of a lease is decided here, immediately and without any call: a request arrives, weights are about to change,
the coordinator revokes the lease or stops renewing it, or the trainer dies. A single task then makes the trainer
comply.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Never

from tlt_common.aio import backoff
from tlt_common.domain.fleet import Lease, Revocation, TrainingProgress, WorkerState
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion
from tlt_common.errors import TltError, UnavailableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_worker.activity import Activity, Tenancy
from tlt_worker.lending.device_lease import DeviceLease
from tlt_worker.lending.policy_notice import PolicyNotice
from tlt_worker.lending.trained_time import TrainedTime
from tlt_worker.lending.trainer_control import TrainerControl

log = get_logger(__name__)

PROGRESS_EVERY_S = 1.0
FAILED_S, MOST_FAILED_S = 1.0, 60.0
"""Seconds without a lease after a trainer did not start training: at first, doubled each time, and at most."""
_INSIDE = {Tenancy.TRAINING, Tenancy.WAITING}


class HeldLease:
    """
    The leases of one device.

    Args:
        policy: Returns the directory and version of the served weights.
        drafter: Returns the version of the loaded drafter.
        accept_length: Returns the tokens per request and round in the engine's last rounds; 0 before the first.
        kill: Kills a trainer process that does not answer Preempt, so that it does not keep the device.
        on_change: Called when `epoch` or `progress` has changed.
    """

    def __init__(
        self,
        link: TrainerControl,
        activity: Activity,
        *,
        policy: Callable[[], tuple[Path, PolicyVersion]],
        drafter: Callable[[], DrafterVersion],
        accept_length: Callable[[], float],
        kill: Callable[[], None],
        on_change: Callable[[], None],
    ) -> None:
        self._link = link
        self._activity = activity
        self._policy = policy
        self._drafter = drafter
        self._accept_length = accept_length
        self._kill = kill
        self._on_change = on_change
        self._lease = DeviceLease()
        self._tenant = Epoch(0)  # epoch under which the trainer may hold the device; 0: it does not
        self._unsent: Lease | None = None  # lease to send to the trainer; may be a renewal
        self._starting: asyncio.Timeout | None = None
        self._due = asyncio.Event()
        self._progress: TrainingProgress | None = None
        self.notice = PolicyNotice(link, policy)
        self._lives = 0  # trainer processes that have exited
        self._delays = backoff(FAILED_S, MOST_FAILED_S)
        self._not_before_s = 0.0
        self.trained = TrainedTime()

    @property
    def epoch(self) -> Epoch:
        """Epoch of the current lease; 0 means none."""
        return self._lease.epoch

    @property
    def progress(self) -> TrainingProgress | None:
        """Last progress reported by the trainer; None if it is unreachable."""
        return self._progress

    @property
    def resting(self) -> bool:
        """Whether the trainer has nothing left to learn. A new policy or drafter gives it something to learn."""
        known = self._progress
        return (
            known is not None
            and known.resting
            and known.policy_version == self._policy()[1]
            and known.drafter_version >= self._drafter()
        )

    @property
    def ready(self) -> bool:
        """Whether the trainer responds and has not just failed to start training."""
        return self._progress is not None and asyncio.get_running_loop().time() >= self._not_before_s

    @property
    def unused(self) -> WorkerState:
        """The state of idle devices."""
        if self._progress is None:
            return WorkerState.STARTING
        is_waiting = self._activity.tenancy is Tenancy.WAITING
        return WorkerState.RESTING if is_waiting or self.resting else WorkerState.IDLE

    @property
    def lent(self) -> bool:
        """Whether the trainer may be computing on the device."""
        return self._activity.tenancy is not Tenancy.NONE

    @property
    def training_age_s(self) -> float:
        """Seconds since `trained` was read from the trainer; 0 unless lent."""
        return self.trained.age_s(asyncio.get_running_loop().time()) if self.lent else 0.0

    def grant(self, lease: Lease) -> None:
        """
        Accept a lease or its renewal.

        A busy device or a resting trainer declines. A lease that has ended is not accepted again.
        """
        wanted = not self._activity.busy and self.ready and not self.resting
        accepted = self._lease.offer(lease, asyncio.get_running_loop().time(), wanted=wanted)
        if accepted is False:
            self._on_change()
        if accepted:
            self._unsent = lease
            self._due.set()

    def revoke(self, revocation: Revocation) -> None:
        """End the lease if its epoch is at most this one."""
        if self._lease.revoked_by(revocation):
            self._end("revoked")

    def make_way(self) -> None:
        """Take the device back for a request or new weights. Returns immediately."""
        self._end("rollout")

    def retire(self) -> None:
        """Take the device back permanently before the worker shuts down, and decline further leases."""
        self._lease.retire()
        self._end("draining")
        self._on_change()

    def lose_trainer(self) -> None:
        """Reset the trainer's state after its process has exited."""
        self._end("trainer_died")
        self._lives += 1
        self.trained.restart()
        self._tenant = Epoch(0)
        self._activity.set_tenancy(Tenancy.NONE)
        self._set_progress(None)

    async def run(self) -> Never:
        """Apply the current lease to the trainer until cancelled."""
        while True:
            try:
                async with asyncio.timeout_at(self._lease.expires_at_s if self.epoch else None):
                    await self._due.wait()
            except TimeoutError:
                self._end("expired")
            self._due.clear()
            if not self.epoch and self._tenant:
                await self._leave()
            elif self._unsent is not None:
                await self._enter(self._unsent)

    async def watch(self) -> Never:
        """Poll training progress until cancelled."""
        while True:
            tenant, life, asked_at_s = self._tenant, self._lives, asyncio.get_running_loop().time()
            try:
                progress = await self._link.progress()
            except UnavailableError:
                self._set_progress(None)
            else:
                if life == self._lives:
                    self.trained.read(progress.training_s, asked_at_s)
                self._set_progress(progress)
                if self.resting:
                    self._end("resting")
                if tenant == self._tenant == self.epoch and self._activity.tenancy in _INSIDE:
                    self._activity.set_tenancy(Tenancy.TRAINING if progress.training else Tenancy.WAITING)
            await asyncio.sleep(PROGRESS_EVERY_S)

    async def _enter(self, lease: Lease) -> None:
        self._unsent = None
        if self._activity.tenancy not in _INSIDE:
            self._activity.set_tenancy(Tenancy.ENTERING)
        self._tenant = lease.epoch  # before the call: training may have begun even if the response is lost
        policy, version = self._policy()
        try:
            async with asyncio.timeout(None) as starting:
                self._starting = starting
                try:
                    await self._link.start(lease, policy=policy, version=version, accept_length=self._accept_length())
                finally:
                    self._starting = None  # before the scope ends, after which it cannot be expired
        except TimeoutError:
            return  # taken back meanwhile: `_end` expired this timeout, and `_leave` follows
        except TltError as error:
            again_s = next(self._delays)
            self._not_before_s = asyncio.get_running_loop().time() + again_s
            log.warning("trainer_did_not_start", epoch=lease.epoch, error=error.message, again_s=round(again_s, 1))
            self._end("trainer_failed")
            return
        self._delays = backoff(FAILED_S, MOST_FAILED_S)
        if self._activity.tenancy is Tenancy.ENTERING:
            log.info("training_started", epoch=lease.epoch, policy_version=version)
            self._activity.set_tenancy(Tenancy.TRAINING)

    async def _leave(self) -> None:
        epoch, began_s = self._tenant, asyncio.get_running_loop().time()
        try:
            progress = await self._link.preempt(epoch)
            self.trained.read(progress.training_s, asyncio.get_running_loop().time())
            self._set_progress(progress)
        except TltError as error:
            # Whatever the trainer is doing, it must not do it on this device.
            log.warning("trainer_did_not_stop", epoch=epoch, error=error.message)
            self._kill()
            self._set_progress(None)
        self._tenant = Epoch(0)
        self._activity.set_tenancy(Tenancy.NONE)
        metrics.WORKER_PREEMPT_SECONDS.observe(asyncio.get_running_loop().time() - began_s)
        log.info("training_stopped", epoch=epoch)

    def _end(self, reason: str) -> None:
        epoch = self.epoch
        if not self._lease.end():
            return
        metrics.LEASES_ENDED.labels(reason=reason).inc()
        log.info("lease_ended", epoch=epoch, reason=reason)
        self._unsent = None
        if self._tenant:
            self._activity.set_tenancy(Tenancy.LEAVING)
        if self._starting is not None:
            self._starting.reschedule(0.0)
        self._due.set()
        self._on_change()

    def _set_progress(self, progress: TrainingProgress | None) -> None:
        if self._progress is None and progress is not None:
            self.notice.give()
        changed, self._progress = progress != self._progress, progress
        if changed:
            self._on_change()
