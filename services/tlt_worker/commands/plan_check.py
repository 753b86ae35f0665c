"""`tlt engine plan --check`: compares the plan's bytes with the allocations of SGLang's own classes."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tlt_common.drafter.tensors import HEAD
from tlt_common.errors import ConfigError
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.checkpoints.drafter import SHARED_FILE, write_served_config
from tlt_worker.checkpoints.drafter_format import drafter_format
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.commands.cards import CONFIGS
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.requirements import require_runnable

MOST = 0.05
"""Largest accepted difference, relative to what SGLang allocates."""
LIMIT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One row of the comparison, in bytes per GPU."""

    name: str
    planned: int
    allocated: int

    @property
    def difference(self) -> float:
        """Relative difference between planned and allocated bytes."""
        return self.planned / self.allocated - 1


def check_plans(
    configs: Sequence[Mapping[str, Any]], engine: EngineConfig, dtype: str
) -> tuple[tuple[Compared, ...], ...]:
    """
    Compare plans for one GPU with SGLang's allocations. Takes half a minute; reads no weights.

    Args:
        configs: The models' `config.json`.
        engine: The engine's configuration.
        dtype: Type of weights and activations.

    Raises:
        ConfigError: A model is not served, or SGLang cannot build it; the message has its error.
    """
    forms = []
    for config in configs:
        require_runnable(config, engine)
        forms.append(drafter_format(engine, config))
    with tempfile.TemporaryDirectory(prefix="tlt-check-") as directory:
        folders = [Path(directory, str(number)) for number in range(len(configs))]
        for folder, config, form in zip(folders, configs, forms, strict=True):
            for part in ("model", "drafter"):
                (folder / part).mkdir(parents=True)
            (folder / "model/config.json").write_text(json.dumps(config))
            write_served_config(folder / "drafter", form, config)
            shared = [name for name in form.shared_shapes() if name != HEAD or not form.head_rows]
            (folder / "drafter" / SHARED_FILE).write_text(json.dumps(shared))
        allocated = _allocated(dtype, folders)
    shapes = (
        ModelShape.from_config(config, dtype=dtype, drafter=form) for config, form in zip(configs, forms, strict=True)
    )
    return tuple(_compared(shape, each) for shape, each in zip(shapes, allocated, strict=True))


def _compared(shape: ModelShape, allocated: Mapping[str, int]) -> tuple[Compared, ...]:
    planned = {
        "weights": shape.weight_bytes(1),
        "drafter": shape.drafter_bytes(1),
        "KV cache per token": shape.kv_bytes(1),
    }
    return tuple(Compared(name=name, planned=size, allocated=allocated[name]) for name, size in planned.items())


def show_check(source: str, engine: EngineConfig, dtype: str, json_to: str) -> bool:
    """
    Print the comparison for a checkpoint directory, of which only config.json is read, or for a public model.

    Returns:
        Whether all differences are small.

    Raises:
        ConfigError: As for `check_plans`.
    """
    config = CONFIGS[source] if source in CONFIGS else read_config(Path(source))
    (rows,) = check_plans([config], engine, dtype)
    sys.stdout.write((json.dumps(as_dict(rows)) if json_to else "\n".join(lines(rows))) + "\n")
    return all(abs(row.difference) <= MOST for row in rows)


def lines(rows: tuple[Compared, ...]) -> Iterator[str]:
    """Yield the comparison as text."""
    for row in rows:
        yield f"{row.name:20} planned {row.planned:>16,}  SGLang {row.allocated:>16,}  {row.difference:+.2%}"


def as_dict(rows: tuple[Compared, ...]) -> dict[str, Any]:
    """Return the comparison in JSON-compatible types."""
    return {
        row.name: {"planned": row.planned, "allocated": row.allocated, "difference": round(row.difference, 5)}
        for row in rows
    }


def _allocated(dtype: str, folders: Sequence[Path]) -> list[dict[str, int]]:
    command = [sys.executable, "-m", "tlt_worker.engine.counting", dtype, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["nothing"]
        raise ConfigError(f"--check: SGLang cannot build the model: {said[-1]}", field="check")
    return [json.loads(line) for line in done.stdout.splitlines()[-len(folders) :]]
