"""Waits for the marker that trainers write into a directory once the weights in it are complete."""

import asyncio
from pathlib import Path
from urllib.parse import unquote

from tlt_common.errors import InvalidRequestError
from tlt_gateway.http.bodies.address import address_in

MARKER = "STABLE"
WAIT_S = 60.0
POLL_S = 0.2


async def until_stable(directory: str) -> None:
    """
    Wait for the marker of a directory that this gateway can see. Where it cannot, as in an object store, workers judge.

    Raises:
        InvalidRequestError: The address is malformed, or there is no marker after `WAIT_S` seconds.
    """
    parts = address_in("weight_dir", directory)
    if parts.scheme not in {"", "file"}:
        return
    path = Path(unquote(parts.path))
    try:
        async with asyncio.timeout(WAIT_S):
            while await asyncio.to_thread(_is_unfinished, path):  # noqa: ASYNC110 - another machine writes it
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise InvalidRequestError(
            f"weight_dir is {directory}, which has no file {MARKER} after {WAIT_S:g} s; accepted: a directory that is "
            "complete",
            field="weight_dir",
        ) from None


def _is_unfinished(directory: Path) -> bool:
    return directory.is_dir() and not (directory / MARKER).exists()
