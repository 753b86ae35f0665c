"""Checkpoints of zeros of the families in the table."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.families import config_of, shapes_of


def write(directory: Path, family: str = "llama", **options: Any) -> Path:
    """Write a checkpoint."""
    directory.mkdir(exist_ok=True, parents=True)
    config_of(family, **options).save_pretrained(directory)
    save_file(
        {name: torch.zeros(shape, dtype=torch.bfloat16) for name, shape in shapes_of(family, **options).items()},
        directory / "model.safetensors",
        {"format": "pt"},
    )
    return directory


def change(directory: Path, **values: Any) -> None:
    """Change config.json; a value of None removes the key."""
    path = directory / "config.json"
    known = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in known.items() if value is not None}))
