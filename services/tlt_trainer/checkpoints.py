"""Checkpoints: all training state, nothing of the policy. Written outside the training thread."""

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Never

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from tlt_common.documents import json_of
from tlt_common.domain.ids import DrafterVersion
from tlt_common.drafter.format import DrafterFormat
from tlt_common.errors import ConfigError, NotFoundError, UnavailableError, WeightsError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_trainer.drafter.files import shapes
from tlt_trainer.learned import Counters, Snapshot
from tlt_trainer.storage import SET_ASIDE, Storage

log = get_logger(__name__)

STATE_FILE = "state.safetensors"
COUNTERS_FILE = "meta.json"
KEPT = 2
_PARTS = ("weights", "average", "base", "optimizer")


class Checkpoints:
    """The newest snapshots of one trainer. `run` writes what `offer` queues."""

    def __init__(self, url: str) -> None:
        self._storage = Storage(url, mark=COUNTERS_FILE)
        self._offered: Snapshot | None = None
        self._due = asyncio.Event()
        self._writing = threading.Lock()  # the final write, at shutdown, may overlap one in progress

    def offer(self, snapshot: Snapshot) -> None:
        """Queue a snapshot for writing, without waiting. It replaces one whose writing has not begun."""
        self._offered = snapshot
        self._due.set()

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
            self._storage.write(name, to_files(snapshot))
            for old in names[: 1 - KEPT]:
                self._storage.remove(old)
        log.info("checkpoint_written", name=name, steps=snapshot.counters.steps)

    def newest(self, form: DrafterFormat) -> Snapshot | None:
        """
        Read the newest good snapshot; None: there is none. Blocks. Call it at start, before anything is written.

        Damaged ones are set aside, so that they neither count as kept nor are read again.

        Raises:
            ConfigError: The snapshot's drafter has other tensor shapes.
            UnavailableError: The storage cannot be read now. Nothing says that there is no snapshot.
        """
        self._storage.sweep()
        for name in reversed(self._names()):
            try:
                files = self._storage.read(name)
            except NotFoundError as error:  # removed meanwhile
                log.warning("checkpoint_missing", name=name, error=error.message)
                continue
            try:
                snapshot = from_files(files)
                check_finite(snapshot)
            except WeightsError as error:
                log.warning("checkpoint_damaged", name=name, kept_as=self._set_aside(name), error=error.message)
                continue
            if shapes_of(snapshot.weights) != shapes(form):
                raise ConfigError(
                    "checkpoint_dir holds the drafter of another model; accepted: one of this model, or an empty one",
                    field="checkpoint_dir",
                )
            return snapshot
        return None

    def _set_aside(self, name: str) -> str:
        """Keep one damaged snapshot for inspection: the latest found."""
        for old in self._storage.names():
            if old.endswith(SET_ASIDE):
                self._storage.remove(old)
        return self._storage.set_aside(name)

    def _names(self) -> list[str]:
        return [name for name in self._storage.names() if name.isdigit()]


def to_files(snapshot: Snapshot) -> dict[str, bytes]:
    """Return the files of a snapshot. Tensors are named `<part>:<name>`."""
    parts: dict[str, Mapping[str, Tensor]] = {part: getattr(snapshot, part) for part in _PARTS}
    tensors = {f"{part}:{name}": tensor.contiguous() for part, held in parts.items() for name, tensor in held.items()}
    return {STATE_FILE: save(tensors), COUNTERS_FILE: json.dumps(asdict(snapshot.counters)).encode()}


def from_files(files: Mapping[str, bytes]) -> Snapshot:
    """
    Read the files written by `to_files`.

    Raises:
        WeightsError: The files are damaged, or of another format.
    """
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in _PARTS}
    try:
        for key, tensor in load(files[STATE_FILE]).items():
            part, _, name = key.partition(":")
            parts[part][name] = tensor
        counters = _counters(json_of(files[COUNTERS_FILE]))
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise WeightsError(f"the checkpoint cannot be read: {type(error).__name__}: {error}") from error
    snapshot = Snapshot(counters=counters, **parts)
    _check_consistent(snapshot)
    return snapshot


def _counters(found: Any) -> Counters:
    """
    Raises:
        KeyError: A counter is missing.
        TypeError: The document is no object.
        ValueError: A counter is not an integer.
    """
    counts = {name: found[name] for name in (field.name for field in fields(Counters))}
    if wrong := [name for name, count in counts.items() if type(count) is not int]:
        raise ValueError(f"{wrong[0]} is {counts[wrong[0]]!r}; accepted: an integer")
    return Counters(**{**counts, "base_version": DrafterVersion(counts["base_version"])})


def check_finite(snapshot: Snapshot) -> None:
    """
    Raises:
        WeightsError: A tensor, which the message names, contains a value that is not finite.
    """
    for part in _PARTS:
        for name, tensor in getattr(snapshot, part).items():
            if not bool(tensor.isfinite().all()):
                raise WeightsError(f"{part}:{name} is not finite", field=part)


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor."""
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _check_consistent(snapshot: Snapshot) -> None:
    """
    Raises:
        WeightsError: The parts do not belong together.
    """
    shapes = shapes_of(snapshot.weights)
    # Without a base the published drafter was unreadable when training went on without it.
    for part in ("average", "base") if snapshot.base else ("average",):
        if shapes_of(getattr(snapshot, part)) != shapes:
            raise WeightsError(f"{part} has other tensors than weights", field=part)
    for name, shape in shapes_of(snapshot.optimizer).items():
        if shape not in {(), shapes.get(name.rpartition("/")[0])}:
            raise WeightsError(f"optimizer:{name} is {shape}, which fits no weight", field="optimizer")
