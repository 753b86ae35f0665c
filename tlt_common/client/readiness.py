"""Reads a gateway's state and waits until it is ready."""

import asyncio
from contextlib import suppress

from tlt_common.client.gateways import Gateways
from tlt_common.client.retrying import retried
from tlt_common.domain.server_info import ServerInfo
from tlt_common.errors import TltError, UnavailableError
from tlt_common.rpc.errors import translated
from tlt_common.wire import rollout as wire

CALL_S = 10.0
"""Deadline of short calls."""
PAUSE_S = 0.1


async def info_of(stub: wire.AsyncStub) -> ServerInfo:
    """Return the state of one gateway."""
    with translated():
        return wire.info_from_pb(await stub.GetServerInfo(wire.pb.GetServerInfoRequest(), timeout=CALL_S))


async def known(gateways: Gateways) -> ServerInfo | None:
    """Return the gateway's state, or None if it cannot be determined: a log must not end a training run."""
    with suppress(TltError):
        return await retried(gateways, info_of)
    return None


async def until_ready(gateways: Gateways, timeout_s: float, *, workers: int) -> ServerInfo:
    """
    Wait until a gateway is reachable and `workers` workers accept requests. See `Client.wait_ready`.

    Raises:
        UnavailableError: They are not ready within `timeout_s`.
    """
    endpoint = ", ".join(gateways.endpoints)
    missing = f"no gateway is reachable at {endpoint}"
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    info = await info_of(stub := gateways.stub)
                except UnavailableError as error:
                    gateways.failed(stub, error)
                    missing = f"no gateway is reachable at {endpoint}: {error.message}"
                else:
                    if info.workers >= workers:
                        return info
                    missing = f"{info.workers} of {workers} workers accept requests at {endpoint}"
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        raise UnavailableError(f"after {timeout_s:g} s {missing}") from None
