"""Waits until a run is ready: the coordinator knows all workers, and they have loaded the initial drafter."""

import asyncio
from collections.abc import Callable

import grpc

from tlt_common.domain.fleet import Member
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import ConfigError, StaleVersionError, UnavailableError
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire

CALL_S = 10.0
JOIN_S = 30.0
"""Time limit, in seconds, for serving workers to join the coordinator."""
LOAD_S = 120.0
"""Time limit, in seconds, for every worker to load the drafter; a remote one is copied first."""
PUBLISHER = "tlt-up"
"""Worker id recorded for a drafter that no trainer of the run made."""


async def publish_drafter(channel: grpc.aio.Channel, uri: str) -> DrafterVersion:
    """
    Make the given drafter the first of the fleet; return its version. Repeating it returns the same version.

    Raises:
        ConfigError: The run directory already has a newer drafter.
        UnavailableError: The coordinator is unreachable.
    """
    request = wire.pb.PublishDrafterRequest(uri=uri, worker_id=PUBLISHER)
    try:
        with translated():
            response = await wire.Stub(channel).PublishDrafter(request, timeout=CALL_S)
    except StaleVersionError as error:
        raise ConfigError(
            "--drafter: the run directory already has another drafter; omit --drafter to continue with that one, "
            "or choose another --run-dir",
            field="drafter",
        ) from error
    return DrafterVersion(response.drafter_version)


async def until_joined(channel: grpc.aio.Channel, workers: int, *, within_s: float = JOIN_S) -> None:
    """
    Wait until the coordinator knows this many workers.

    Raises:
        UnavailableError: Not within `within_s` seconds.
    """
    if not await _met(channel, lambda members: len(members) >= workers, within_s=within_s):
        raise UnavailableError(f"not all workers joined the coordinator within {within_s:g} s")


async def until_loaded(channel: grpc.aio.Channel, version: DrafterVersion, *, within_s: float = LOAD_S) -> None:
    """
    Wait until every worker has loaded a drafter of that version or a newer one.

    Raises:
        UnavailableError: Not within `within_s` seconds.
    """

    def loaded(members: list[Member]) -> bool:
        return all(member.status.drafter_version >= version for member in members)

    if not await _met(channel, loaded, within_s=within_s):
        raise UnavailableError(
            f"--drafter: not all workers loaded it within {within_s:g} s; see event drafter_refused in their logs"
        )


async def _met(channel: grpc.aio.Channel, holds: Callable[[list[Member]], bool], *, within_s: float) -> bool:
    """Return whether the fleet met the condition in time. The stream ends only with its coordinator."""
    try:
        async with asyncio.timeout(within_s):
            with translated():
                async for message in wire.Stub(channel).WatchFleet(wire.pb.WatchFleetRequest()):
                    if holds([wire.member_from_pb(member) for member in message.members]):
                        return True
    except TimeoutError:
        pass
    return False
