"""Calls that release an engine's memory for trainers that share its devices."""

from collections.abc import Iterable

from tlt_common.domain.fleet import MEMORY_TAGS
from tlt_common.errors import InvalidRequestError
from tlt_gateway.fleet.fleet_memory import FleetMemory

RESIDENT = "Nothing is released: weights, KV cache and graphs of target and drafter stay in the workers' memory."
RESUMED = "Memory is resumed."


async def release(memory: FleetMemory, path: str, tags: Iterable[str] | None, *, field: str) -> None:
    """
    Release memory of all workers.

    Raises:
        InvalidRequestError: The engines keep their memory, or requests are running; the error names the field.
        UnavailableError: A worker did not release it.
    """
    if not memory.releasable:
        asked = ", ".join(tags or MEMORY_TAGS)
        raise InvalidRequestError(
            f"{path} of {asked} is not supported by these workers: they keep their memory, and train drafters on their "
            "devices while no request runs. If your trainer needs the devices, start the workers on GPUs with "
            "engine.releasable, or stop them first",
            field=field,
        )
    await memory.release(tags or ())


async def resume(memory: FleetMemory, tags: Iterable[str] | None) -> str:
    """
    Resume memory of all workers; return a sentence that describes the result.

    Raises:
        UnavailableError: A worker did not resume its memory.
    """
    if not memory.released:
        return RESIDENT
    await memory.resume(tags or ())
    return RESUMED
