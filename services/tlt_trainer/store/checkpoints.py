"""
Checkpoints of the whole training state, without the policy. Written outside the training thread.

The optimizer's state is written with every few checkpoints as a separate file, to which those in between refer. A
restart then continues newer weights with a momentum that is a few steps old, or without one if it cannot be read, which
builds up again within about twenty steps.
"""

import asyncio
import threading
from dataclasses import replace
from typing import Never

from tlt_common.drafter.format import DrafterFormat
from tlt_common.errors import ConfigError, NotFoundError, UnavailableError, WeightsError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_trainer.drafter.files import shapes
from tlt_trainer.learned import Snapshot
from tlt_trainer.store.checkpoint_files import (
    COUNTERS_FILE,
    check_consistent,
    check_finite,
    from_files,
    optimizer_at,
    optimizer_of,
    shapes_of,
    to_files,
)
from tlt_trainer.store.storage import SET_ASIDE, Storage

log = get_logger(__name__)

KEPT = 2
OPTIMIZER_EVERY = 4
"""A trainer writes the optimizer's state with every so many checkpoints: after a restart, momentum may be older than
the weights by up to three, and builds up again within some twenty steps."""


class Checkpoints:
    """
    The newest snapshots of one trainer. `run` writes what `offer` queues.

    Args:
        url: Location of the checkpoints.
        optimizer_every: Write the optimizer's state with every n-th checkpoint.
    """

    def __init__(self, url: str, *, optimizer_every: int = 1) -> None:
        self._storage = Storage(url, mark=COUNTERS_FILE)
        self._offered: Snapshot | None = None
        self._due = asyncio.Event()
        self._optimizer_every = optimizer_every
        self._optimizer_age = 0  # checkpoints since the last one with an optimizer
        self._optimizer_at: str | None = None
        self._writing = threading.Lock()  # the final write, at shutdown, may overlap one in progress

    def offer(self, snapshot: Snapshot) -> None:
        """Queue a snapshot for writing, without waiting. It replaces a snapshot whose writing has not begun."""
        self._offered = snapshot
        self._due.set()

    @property
    def wants_optimizer(self) -> bool:
        """
        Whether the next snapshot should contain the optimizer's state.

        Otherwise it refers to the last one that did.
        """
        return self._optimizer_at is None or self._optimizer_age + 1 >= self._optimizer_every

    async def run(self) -> Never:
        """Write queued snapshots until cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            if self._offered is None:
                continue
            snapshot, self._offered = self._offered, None
            try:
                await asyncio.to_thread(self.write, snapshot)
            except (UnavailableError, WeightsError) as error:
                log.warning("checkpoint_failed", error=error.message)

    def write(self, snapshot: Snapshot) -> None:
        """
        Write a snapshot and delete all but the newest KEPT. Blocks.

        Raises:
            UnavailableError: The storage cannot be written.
            WeightsError: A tensor is not finite; nothing was written.
        """
        check_finite(snapshot)
        with self._writing, metrics.CHECKPOINT_SECONDS.time():
            names = self._names()
            name = f"{int(names[-1]) + 1 if names else 1:08d}"
            held = name if snapshot.optimizer else self._optimizer_at
            self._storage.write(name, to_files(snapshot, optimizer_at=held))
            self._optimizer_age = 0 if held == name else self._optimizer_age + 1
            self._optimizer_at = held
            kept = names[1 - KEPT :]
            needed = {held, *map(self._optimizer_of, kept)}
            for old in [old for old in names if old not in kept and old not in needed]:
                self._storage.remove(old)
        log.info("checkpoint_written", name=name, steps=snapshot.counters.steps)

    def newest(self, form: DrafterFormat) -> Snapshot | None:
        """
        Read the newest valid snapshot, or None if there is none. Blocks. Call it at start, before anything is written.

        Damaged snapshots are set aside, so that they neither count as kept nor are read again.

        Raises:
            ConfigError: The snapshot's drafter has other tensor shapes.
            UnavailableError: The storage cannot be read now. It may contain a snapshot.
        """
        for partial in self._storage.sweep():
            metrics.CHECKPOINTS_SKIPPED.labels(reason="incomplete").inc()
            log.warning("checkpoint_incomplete", name=partial)
        for name in reversed(self._names()):
            try:
                files = self._storage.read(name)
            except NotFoundError as error:  # removed meanwhile
                metrics.CHECKPOINTS_SKIPPED.labels(reason="missing").inc()
                log.warning("checkpoint_missing", name=name, error=error.message)
                continue
            try:
                snapshot = from_files(files)
                check_finite(snapshot)
                held = optimizer_at(files)
            except WeightsError as error:
                metrics.CHECKPOINTS_SKIPPED.labels(reason="damaged").inc()
                log.warning("checkpoint_damaged", name=name, kept_as=self._set_aside(name), error=error.message)
                continue
            if shapes_of(snapshot.weights) != shapes(form):
                raise ConfigError(
                    "checkpoint_dir holds a drafter of another model or kind; accepted: one of this, or an empty one",
                    field="checkpoint_dir",
                )
            return self._with_optimizer(snapshot, held) if held not in {None, name} else snapshot
        return None

    def _with_optimizer(self, snapshot: Snapshot, held: str | None) -> Snapshot:
        """Return a snapshot with the optimizer of an older checkpoint, or without one if that is unreadable."""
        try:
            optimizer = optimizer_of(self._storage.read(str(held)))
            found = replace(snapshot, optimizer=optimizer)
            check_finite(found)
            check_consistent(found)
        except (NotFoundError, WeightsError) as error:
            metrics.CHECKPOINTS_SKIPPED.labels(reason="optimizer").inc()
            log.warning("optimizer_damaged", name=held, error=error.message)
            return snapshot
        self._optimizer_at = held
        return found

    def _optimizer_of(self, name: str) -> str | None:
        """Return the checkpoint that a kept one needs for its optimizer, or None if it cannot be read."""
        try:
            return optimizer_at(self._storage.read_some(name, (COUNTERS_FILE,)))
        except (NotFoundError, WeightsError):
            return None

    def _set_aside(self, name: str) -> str:
        """Keep one damaged snapshot for inspection: the most recently found."""
        for old in self._storage.names():
            if old.endswith(SET_ASIDE):
                self._storage.remove(old)
        return self._storage.set_aside(name)

    def _names(self) -> list[str]:
        return [name for name in self._storage.names() if name.isdigit()]
