"""A checkpoint as files: weights, optimizer and counters."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from tlt_common.documents import json_of
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import WeightsError
from tlt_trainer.learned import Snapshot, TrainingCounters

STATE_FILE = "state.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
COUNTERS_FILE = "meta.json"
OPTIMIZER_KEY = "optimizer"
"""Key of meta.json: the checkpoint whose optimizer belongs to these weights."""
_PARTS = ("weights", "average", "base", "optimizer")
_WEIGHTS = _PARTS[:-1]


def to_files(snapshot: Snapshot, *, optimizer_at: str | None = None) -> dict[str, bytes]:
    """Return the files of a snapshot. Tensors are named `<part>:<name>`. See `OPTIMIZER_KEY` for `optimizer_at`."""
    counters = asdict(snapshot.counters) | ({OPTIMIZER_KEY: optimizer_at} if optimizer_at else {})
    return {
        STATE_FILE: _saved(snapshot, _WEIGHTS),
        **({OPTIMIZER_FILE: _saved(snapshot, ("optimizer",))} if snapshot.optimizer else {}),
        COUNTERS_FILE: json.dumps(counters).encode(),
    }


def _saved(snapshot: Snapshot, parts: Sequence[str]) -> bytes:
    return save({f"{part}:{name}": t.contiguous() for part in parts for name, t in getattr(snapshot, part).items()})


def from_files(files: Mapping[str, bytes]) -> Snapshot:
    """
    Read the files written by `to_files`, without the optimizer if another checkpoint has it.

    Raises:
        WeightsError: The files are damaged, or of another format.
    """
    parts = {part: dict[str, Tensor]() for part in _PARTS}
    with _reading():
        # An earlier version wrote the optimizer into the same file.
        for key, tensor in load(files[STATE_FILE]).items():
            part, _, name = key.partition(":")
            parts[part][name] = tensor
        counters = _counters(json_of(files[COUNTERS_FILE]))
    if OPTIMIZER_FILE in files:
        parts["optimizer"] = optimizer_of(files)
    snapshot = Snapshot(counters=counters, **parts)
    check_consistent(snapshot)
    return snapshot


def optimizer_of(files: Mapping[str, bytes]) -> dict[str, Tensor]:
    """
    Raises:
        WeightsError: The file is missing or damaged.
    """
    with _reading():
        return {key.partition(":")[2]: tensor for key, tensor in load(files[OPTIMIZER_FILE]).items()}


def optimizer_at(files: Mapping[str, bytes]) -> str | None:
    """
    Return the checkpoint whose optimizer belongs to this one. None for checkpoints of earlier versions, which have
    their own.

    Raises:
        WeightsError: The file is damaged.
    """
    with _reading():
        found = json_of(files[COUNTERS_FILE]).get(OPTIMIZER_KEY)
        if found is not None and not (isinstance(found, str) and found.isdigit()):
            raise ValueError(f"{OPTIMIZER_KEY} is {found!r}; accepted: the name of a checkpoint")
        return found


@contextmanager
def _reading() -> Iterator[None]:
    """
    Raises:
        WeightsError: A file is missing, damaged or of another format.
    """
    try:
        yield
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise WeightsError(f"the checkpoint cannot be read: {type(error).__name__}: {error}") from error


def _counters(found: Any) -> TrainingCounters:
    """
    Raises:
        KeyError: A counter is missing.
        TypeError: The document is not an object.
        ValueError: A counter is not an integer.
    """
    counts = {name: found[name] for name in (field.name for field in fields(TrainingCounters))}
    if wrong := [name for name, count in counts.items() if type(count) is not int]:
        raise ValueError(f"{wrong[0]} is {counts[wrong[0]]!r}; accepted: an integer")
    return TrainingCounters(**{**counts, "base_version": DrafterVersion(counts["base_version"])})


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


def check_consistent(snapshot: Snapshot) -> None:
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
