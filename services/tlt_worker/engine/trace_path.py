"""Checks that the trace of rounds can be written, before the engine starts."""

import os
from pathlib import Path

from tlt_common.errors import ConfigError


def require_writable(path: Path) -> None:
    """
    Check that the engine's trace can be written, before the engine starts.

    Raises:
        ConfigError: It is not writable.
    """
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(
            f"engine.trace: {path} is not writable; accepted: a file in an existing directory", field="engine.trace"
        )
