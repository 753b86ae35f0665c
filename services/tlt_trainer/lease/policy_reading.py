"""
Loads the policy's embedding and head: from files as soon as they are served, and to the device under a lease, in pieces
between which it can be taken back.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from tlt_common.domain.ids import Epoch, PolicyVersion
from tlt_common.drafter.format import DrafterFormat
from tlt_common.errors import StaleEpochError, WeightsError
from tlt_trainer.drafter.shared_weights import find_shared, read_rows, shared_of
from tlt_trainer.learner import Learner
from tlt_trainer.lease.device import TrainingDevice
from tlt_trainer.lease.learner_turn import LearnerTurn, Occupation
from tlt_trainer.lease.training_lease import TrainingLease

PIECE_BYTES = 16 * 2**20
"""A copy to the device of this size takes a few milliseconds."""
AHEAD_BYTES = 2**30
"""Embedding and head of at most this size are held from the commit to the next lease. Larger ones are only read, so
that they are in the page cache, which the system may take back."""


class PolicyReader:
    """Keeps a learner's shared weights equal to those of the policy that leases name."""

    def __init__(self, learner: Learner, device: TrainingDevice, turn: LearnerTurn, lease: TrainingLease) -> None:
        self._learner = learner
        self._device = device
        self._turn = turn
        self._lease = lease
        self._loaded: tuple[Path, PolicyVersion] | None = None
        self._ahead: tuple[tuple[Path, PolicyVersion], asyncio.Task[dict[str, Tensor]]] | None = None

    def prepare(self, policy: Path, version: PolicyVersion) -> None:
        """Begin to read this policy, so that the next lease that names it does not wait for a disk."""
        known = self._loaded if self._ahead is None else self._ahead[0]
        if known == (policy, version):
            return
        self._forget_ahead()
        reading = asyncio.create_task(asyncio.to_thread(_in_memory, policy, self._learner.form), name="policy-ahead")
        reading.add_done_callback(_noted)
        self._ahead = (policy, version), reading

    async def read(self, epoch: Epoch, policy: Path, version: PolicyVersion) -> None:
        """
        Load this policy unless it is loaded. Training is suspended meanwhile.

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
                await self._read(epoch, policy, version)
            except WeightsError:
                if self._lease.epoch == epoch:
                    self._lease.preempt(epoch)
                raise
            self._loaded = policy, version
            if self._ahead is not None and self._ahead[0] == self._loaded:
                self._ahead = None

    async def _read(self, epoch: Epoch, policy: Path, version: PolicyVersion) -> None:
        """Read the policy's files in another thread than the device's, since a disk may be slow."""
        form = self._learner.form
        self._learner.share(None)  # first: a large vocabulary would need its memory twice
        held = await self._taken_ahead(policy, version)
        files = await asyncio.to_thread(find_shared, policy, form) if held is None else {}
        found: dict[str, Tensor] = {}
        for name in held or files:
            for rows in _pieces(form):
                piece = (
                    await asyncio.to_thread(read_rows, files[name], name, rows) if held is None else held[name][rows]
                )
                if not self._lease.is_current(epoch):
                    raise StaleEpochError(f"the lease of epoch {epoch} ended while the policy was read", field="epoch")
                if not rows.start:
                    found[name] = await self._device.run(_allocated, self._learner, policy)
                await self._device.run(_fill, found[name][rows], piece)
        self._learner.share(shared_of(found))

    async def _taken_ahead(self, policy: Path, version: PolicyVersion) -> dict[str, Tensor] | None:
        """Return the weights read ahead for this policy, once they are complete; None if there are none."""
        if self._ahead is None or self._ahead[0] != (policy, version):
            self._forget_ahead()
            return None
        try:
            return await asyncio.shield(self._ahead[1]) or None
        except WeightsError:  # said by who reads it again
            self._ahead = None
            return None

    def _forget_ahead(self) -> None:
        """Discard weights read ahead for another policy. Their memory is free once the thread has ended."""
        if self._ahead is not None:
            self._ahead[1].cancel()
            self._ahead = None


def _in_memory(policy: Path, form: DrafterFormat) -> dict[str, Tensor]:
    """Read embedding and head; return nothing if they are too large to hold."""
    files, row_bytes = find_shared(policy, form), 2 * form.hidden_size
    if len(files) * form.vocab_size * row_bytes <= AHEAD_BYTES:
        return {name: read_rows(path, name) for name, path in files.items()}
    for name, path in files.items():
        for rows in _pieces(form):
            read_rows(path, name, rows)
    return {}


def _pieces(form: DrafterFormat) -> Iterator[slice]:
    step = max(1, PIECE_BYTES // (2 * form.hidden_size))
    return (slice(first, first + step) for first in range(0, form.vocab_size, step))


def _noted(reading: asyncio.Task[dict[str, Tensor]]) -> None:
    """Retrieve an error, which the next lease repeats, so that it is not reported as unhandled."""
    if not reading.cancelled():
        reading.exception()


def _allocated(learner: Learner, directory: Path) -> Tensor:
    shape = learner.form.vocab_size, learner.form.hidden_size
    try:
        return torch.empty(shape, dtype=learner.dtype, device=learner.device)
    except torch.OutOfMemoryError as error:
        raise WeightsError(f"{directory}: no memory for embedding and head: {error}", field="policy_uri") from error


def _fill(rows: Tensor, piece: Tensor) -> None:
    rows.copy_(piece)
