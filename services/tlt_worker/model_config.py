"""What a checkpoint says of itself."""

import json
from pathlib import Path
from typing import Any

from tlt_common.errors import ConfigError


def read_config(directory: Path) -> dict[str, Any]:
    """
    Read a checkpoint's `config.json`.

    Raises:
        ConfigError: It is missing or no JSON object.
    """
    path = directory / "config.json"
    try:
        config: Any = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not readable: {error}; accepted: a Hugging Face model directory") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{path} holds no JSON object; accepted: a Hugging Face model directory")
    return config
