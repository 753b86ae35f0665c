"""Settings that make an engine run the loop."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

LOOP_VARIABLE: Final = "TLT_GPU_LOOP"
"""Environment variable of an engine's processes; without it the plug-in does nothing."""
ROUNDS_VARIABLE: Final = "TLT_GPU_LOOP_ROUNDS"
"""File that receives a line for each decoding round; see `counting`."""
LAUNCHES_VARIABLE: Final = "TLT_GPU_LOOP_LAUNCHES"
"""Also counts launches in each of them, which slows the engine down."""


def variables(rounds: Path | None = None) -> Mapping[str, str]:
    """Return the environment in which engines on a CPU run the loop of GPUs."""
    return {LOOP_VARIABLE: "1"} | ({} if rounds is None else {ROUNDS_VARIABLE: str(rounds), LAUNCHES_VARIABLE: "1"})
