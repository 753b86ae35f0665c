"""Reads a checkpoint's `config.json`."""

from pathlib import Path
from typing import Any

from tlt_common.documents import json_of
from tlt_common.errors import ConfigError


def read_config(directory: Path) -> dict[str, Any]:
    """
    Read a checkpoint's `config.json`.

    Raises:
        ConfigError: The file is missing or not a JSON object.
    """
    path = directory / "config.json"
    try:
        config: Any = json_of(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} is not readable: {error}; accepted: a Hugging Face model directory", field="model"
        ) from error
    if not isinstance(config, dict):
        raise ConfigError(f"{path} is not a JSON object; accepted: a Hugging Face model directory", field="model")
    return config
