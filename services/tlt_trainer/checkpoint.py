"""Checkpoints: everything that is trained, and nothing of the policy. Written off the training thread."""

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Never

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import ConfigError, NotFoundError, UnavailableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_trainer.drafter.files import expected_shapes
from tlt_trainer.drafter.shape import DrafterShape
from tlt_trainer.learner import Counters, Snapshot
from tlt_trainer.storage import Storage

log = get_logger(__name__)

STATE_FILE = "state.safetensors"
META_FILE = "meta.json"
KEPT = 2
_PARTS = ("weights", "average", "base", "optimizer")


class Checkpoints:
    """The last few snapshots of one trainer. `run` writes what `offer` hands over."""

    def __init__(self, url: str) -> None:
        self._storage = Storage(url, mark=META_FILE)
        self._offered: Snapshot | None = None
        self._due = asyncio.Event()
        self._writing = threading.Lock()  # the last write, at the end of the process, may meet one that still runs

    def offer(self, snapshot: Snapshot) -> None:
        """Have it written soon, without waiting. A newer offer replaces one that is not begun."""
        self._offered = snapshot
        self._due.set()

    async def run(self) -> Never:
        """Write what is offered, until cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            if self._offered is None:
                continue
            snapshot, self._offered = self._offered, None
            try:
                await asyncio.to_thread(self.write, snapshot)
            except UnavailableError as error:
                log.warning("checkpoint_failed", error=error.message)

    def write(self, snapshot: Snapshot) -> None:
        """
        Write a snapshot and forget the ones before the last. Blocks.

        Raises:
            UnavailableError: The storage cannot be written.
        """
        with self._writing, metrics.CHECKPOINT_SECONDS.time():
            names = self._names()
            name = f"{int(names[-1]) + 1 if names else 1:08d}"
            self._storage.write(name, to_files(snapshot))
            for old in names[: 1 - KEPT]:
                self._storage.remove(old)
        log.info("checkpoint_written", name=name, steps=snapshot.counters.steps)

    def newest(self, shape: DrafterShape) -> Snapshot | None:
        """
        Read the newest complete snapshot; None: there is none. Blocks. For the start, before anything is written.

        Raises:
            ConfigError: It is of a drafter of another shape.
        """
        self._storage.sweep()
        for name in reversed(self._names()):
            try:
                snapshot = from_files(self._storage.read(name))
            except (NotFoundError, SafetensorError, ValueError, KeyError) as error:
                log.warning("checkpoint_unreadable", name=name, error=str(error))
                continue
            found = {tensor: tuple(value.shape) for tensor, value in snapshot.weights.items()}
            if found != expected_shapes(shape):
                raise ConfigError(
                    "checkpoint_dir holds the drafter of another model; accepted: one of this model, or an empty one",
                    field="checkpoint_dir",
                )
            return snapshot
        return None

    def _names(self) -> list[str]:
        return [name for name in self._storage.names() if name.isdigit()]


def to_files(snapshot: Snapshot) -> dict[str, bytes]:
    """Lay a snapshot out as files. Tensors are named `<part>:<name>`."""
    parts: dict[str, Mapping[str, Tensor]] = {part: getattr(snapshot, part) for part in _PARTS}
    tensors = {f"{part}:{name}": tensor.contiguous() for part, held in parts.items() for name, tensor in held.items()}
    return {STATE_FILE: save(tensors), META_FILE: json.dumps(asdict(snapshot.counters)).encode()}


def from_files(files: Mapping[str, bytes]) -> Snapshot:
    """Read what `to_files` laid out. Raises SafetensorError, ValueError or KeyError for anything else."""
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in _PARTS}
    for key, tensor in load(files[STATE_FILE]).items():
        part, _, name = key.partition(":")
        parts[part][name] = tensor
    meta: dict[str, int] = json.loads(files[META_FILE])
    counters = Counters(
        steps=meta["steps"],
        tokens=meta["tokens"],
        base_version=DrafterVersion(meta["base_version"]),
        base_steps=meta["base_steps"],
        base_tokens=meta["base_tokens"],
    )
    return Snapshot(counters=counters, **parts)
