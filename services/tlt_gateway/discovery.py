"""Who the workers are, as the coordinator says. Without it the fleet stays as it was."""

import asyncio
from typing import Never

from tlt_common.aio import backoff
from tlt_common.config.base import TlsSettings
from tlt_common.errors import TltError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import coordinator as wire
from tlt_gateway.fleet import Fleet

log = get_logger(__name__)


async def follow(coordinator: str, fleet: Fleet, *, tls: TlsSettings | None) -> Never:
    """Keep one stream to the coordinator, and show the fleet what comes. Live until cancelled."""
    delays = backoff()
    while True:
        try:
            async with connect(coordinator, to="coordinator", tls=tls) as channel:
                with translated():
                    async for message in wire.Stub(channel).WatchFleet(wire.pb.WatchFleetRequest()):
                        fleet.see([wire.member_from_pb(member) for member in message.members])
                        delays = backoff()
            log.warning("coordinator_lost", coordinator=coordinator, error="it ended the stream")
        except TltError as error:
            log.warning("coordinator_lost", coordinator=coordinator, error=error.message)
        await asyncio.sleep(next(delays))
