"""Replaces the target's weights, or restores the served ones."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tlt_common.domain.ids import PolicyVersion
from tlt_common.errors import EngineError


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFiles:
    """Weights on disk and their version."""

    directory: Path
    version: PolicyVersion


Load: TypeAlias = Callable[[PolicyFiles], Awaitable[str]]
"""Loads weights and empties the KV cache; returns why that failed, or an empty string."""


async def replace_policy(load: Load, new: PolicyFiles, served: PolicyFiles) -> str:
    """
    Load `new` into a paused engine. On failure, load `served` again and return why; otherwise return an empty string.

    SGLang "rolls back" by reading the same new files again, since it has set its `model_path` to them, and each rank
    does so for itself. After a failed load the engine may have new, mixed or incomplete weights.

    Raises:
        EngineError: The served weights could not be loaded either.
    """
    message = await load(new)
    if message and (why := await load(served)):
        raise EngineError(
            f"neither {new.directory} ({message}) nor the served weights in {served.directory} could be loaded: {why}"
        )
    return message
