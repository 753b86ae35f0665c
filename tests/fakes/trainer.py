"""A scripted spot trainer with configurable delays."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Never

from tlt_common.domain.fleet import Lease, TrainingProgress
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion
from tlt_common.errors import StaleEpochError, TltError, UnavailableError
from tlt_common.processes.core_waits import CoreWaits


class FakeTrainer:
    """
    Implements the TrainerControl and Child protocols.

    Attributes:
        calls: Calls received, oldest first: ("start", epoch) or ("preempt", epoch).
        gone: Whether calls get no response.
        refuses: Error of every start; None: it starts.
        resting: Whether it reports that nothing is left to learn.
        has_data: Whether a lease makes it train.
        problem: Why its process exited the last time.
        computes: Share of the time under a lease for which the device computes.
    """

    def __init__(self, *, start_s: float = 0.0, preempt_s: float = 0.0) -> None:
        self.start_s = start_s
        self.preempt_s = preempt_s
        self.calls: list[tuple[str, Epoch]] = []
        self.policies: list[tuple[Path, PolicyVersion]] = []
        self.prepared: list[tuple[Path, PolicyVersion]] = []
        self.accept_lengths: list[float] = []
        self.gone = False
        self.refuses: TltError | None = None
        self.has_data = True
        self.computes = 1.0
        self.resting = False
        self.kills = 0
        self.suspended = False
        self.problem = ""
        self._epoch = Epoch(0)
        self._newest = Epoch(0)
        self._training_s = 0.0
        self._since_s = 0.0
        self._exited = asyncio.Event()
        self.waits = CoreWaits()

    def kill(self) -> None:
        self.kills += 1

    def die(self) -> None:
        """Exit like a killed process."""
        self.gone = True
        self._training_s, self._epoch = 0.0, Epoch(0)
        self._exited.set()

    async def suspend(self) -> None:
        self.suspended = True
        self.die()
        await asyncio.sleep(0)

    def resume(self) -> None:
        self.suspended = self.gone = False

    async def run(self, *, on_exit: Callable[[], None]) -> Never:
        while True:
            await self._exited.wait()
            self._exited.clear()
            on_exit()

    async def start(self, lease: Lease, *, policy: Path, version: PolicyVersion, accept_length: float) -> None:
        self.calls.append(("start", lease.epoch))
        self.policies.append((policy, version))
        self.accept_lengths.append(accept_length)
        await self._answer(self.start_s)
        if self.refuses is not None:
            raise self.refuses
        if lease.epoch < self._newest:
            raise StaleEpochError(f"lease {lease.epoch} was replaced by {self._newest}", field="epoch")
        self._count()
        self._epoch = self._newest = lease.epoch

    async def preempt(self, epoch: Epoch) -> TrainingProgress:
        self.calls.append(("preempt", epoch))
        await self._answer(self.preempt_s)
        self._count()
        self._epoch = Epoch(0)
        return self._progress()

    async def prepare(self, policy: Path, version: PolicyVersion) -> None:
        self.prepared.append((policy, version))
        await self._answer(0.0)

    async def progress(self) -> TrainingProgress:
        await self._answer(0.0)
        return self._progress()

    async def _answer(self, after_s: float) -> None:
        if self.gone:
            raise UnavailableError("the trainer is unreachable")
        await asyncio.sleep(after_s)

    def _count(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._epoch and self.has_data:
            self._training_s += self.computes * (now_s - self._since_s)
        self._since_s = now_s

    def _progress(self) -> TrainingProgress:
        self._count()
        return TrainingProgress(
            training=bool(self._epoch) and self.has_data,
            steps=len(self.calls),
            tokens=0,
            training_s=self._training_s,
            loss=1.5,
            held_out_top1=0.5,
            drafter_version=DrafterVersion(0),
            policy_version=self.policies[-1][1] if self.policies else PolicyVersion(0),
            resting=self.resting,
        )
