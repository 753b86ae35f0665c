"""Loads the policy's embedding and head under a lease, in pieces that let the device be taken back."""

import asyncio
from pathlib import Path

import torch
from torch import Tensor

from tlt_common.domain.ids import Epoch, PolicyVersion
from tlt_common.errors import StaleEpochError, WeightsError
from tlt_trainer.drafter.shared_weights import find_shared, read_rows, shared_of
from tlt_trainer.learner import Learner
from tlt_trainer.lease.device import TrainingDevice
from tlt_trainer.lease.learner_turn import LearnerTurn, Occupation
from tlt_trainer.lease.training_lease import TrainingLease

PIECE_BYTES = 16 * 2**20
"""A copy to the device of this size takes a few milliseconds."""


class PolicyReader:
    """Keeps a learner's shared weights those of the policy that leases name."""

    def __init__(self, learner: Learner, device: TrainingDevice, turn: LearnerTurn, lease: TrainingLease) -> None:
        self._learner = learner
        self._device = device
        self._turn = turn
        self._lease = lease
        self._loaded: tuple[Path, PolicyVersion] | None = None

    async def read(self, epoch: Epoch, policy: Path, version: PolicyVersion) -> None:
        """
        Load this policy, unless it is loaded; training is suspended meanwhile.

        Raises:
            StaleEpochError: The lease ended meanwhile.
            WeightsError: The policy cannot be read, or memory is short; the lease has ended.
        """
        if self._loaded == (policy, version):
            return
        self._lease.suspend()
        async with self._turn.of(Occupation.READING_POLICY):
            if self._loaded == (policy, version):  # by a repeated call
                return
            self._loaded = None
            try:
                await self._read(epoch, policy)
            except WeightsError:
                if self._lease.epoch == epoch:
                    self._lease.preempt(epoch)
                raise
            self._loaded = policy, version

    async def _read(self, epoch: Epoch, policy: Path) -> None:
        """Files are read by another thread than the device's, since a disk may be slow."""
        form = self._learner.form
        self._learner.share(None)  # first: a large vocabulary would need its memory twice
        files = await asyncio.to_thread(find_shared, policy, form)
        step = max(1, PIECE_BYTES // (2 * form.hidden_size))
        found: dict[str, Tensor] = {}
        for name, path in files.items():
            for first in range(0, form.vocab_size, step):
                rows = slice(first, first + step)
                piece = await asyncio.to_thread(read_rows, path, name, rows)
                if not self._lease.is_current(epoch):
                    raise StaleEpochError(f"the lease of epoch {epoch} ended while the policy was read", field="epoch")
                if not first:
                    found[name] = await self._device.run(_room, self._learner, policy)
                await self._device.run(_fill, found[name][rows], piece)
        self._learner.share(shared_of(found))


def _room(learner: Learner, directory: Path) -> Tensor:
    shape = learner.form.vocab_size, learner.form.hidden_size
    try:
        return torch.empty(shape, dtype=learner.dtype, device=learner.device)
    except torch.OutOfMemoryError as error:
        raise WeightsError(f"{directory}: no memory for embedding and head: {error}", field="policy_uri") from error


def _fill(rows: Tensor, piece: Tensor) -> None:
    rows.copy_(piece)
