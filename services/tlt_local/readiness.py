"""Waits until a run is ready: the coordinator knows all workers, and they have loaded the initial drafter."""

import asyncio

import grpc

from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import ConfigError, StaleVersionError, UnavailableError
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire

CALL_S = 10.0
JOIN_S = 30.0
"""Time limit, in seconds, for serving workers to join the coordinator."""
LOAD_S = 120.0
"""Time limit, in seconds, for every worker to load the drafter; a remote one is copied first."""
LOOK_S = 0.3
PUBLISHER = "tlt-up"
"""Worker id recorded for a drafter that no trainer of the run made."""


async def publish_drafter(channel: grpc.aio.Channel, uri: str) -> DrafterVersion:
    """
    Publish the given drafter as the fleet's first; return its version. Idempotent.

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
        UnavailableError: They have not joined within `within_s` seconds.
    """
    try:
        async with asyncio.timeout(within_s):
            with translated():
                async for message in wire.Stub(channel).WatchFleet(wire.pb.WatchFleetRequest()):
                    if len(message.members) >= workers:
                        return
    except TimeoutError:
        pass  # as if the stream had ended, which it does only with its coordinator
    raise UnavailableError(f"not all workers joined the coordinator within {within_s:g} s")


async def until_loaded(channel: grpc.aio.Channel, version: DrafterVersion, *, within_s: float = LOAD_S) -> None:
    """
    Wait until every worker has loaded the drafter version or a newer one.

    Raises:
        UnavailableError: They have not loaded it within `within_s` seconds.
    """
    try:
        async with asyncio.timeout(within_s):
            while True:
                if await _is_loaded(channel, version):
                    return
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise UnavailableError(
            f"--drafter: not all workers loaded it within {within_s:g} s; see event drafter_not_loaded in their logs"
        ) from None


async def _is_loaded(channel: grpc.aio.Channel, version: DrafterVersion) -> bool:
    # Asked for, not watched: the coordinator's stream tells who joins and leaves, not what they have loaded.
    with translated():
        response = await wire.Stub(channel).GetFleet(wire.pb.GetFleetRequest(max_changes=0), timeout=CALL_S)
    known = [account.status for account in wire.fleet_from_pb(response).workers]
    running = [status for status in known if status.state is not WorkerState.DOWN]
    return bool(running) and all(status.drafter_version >= version for status in running)
