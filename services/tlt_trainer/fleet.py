"""The fleet's drafter: which one is the newest, and making the own one it."""

from typing import Protocol

import grpc

from tlt_common.domain.fleet import DrafterWish
from tlt_common.domain.ids import DrafterVersion
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire

CALL_S = 3.0
"""Longest answer. Training stands still meanwhile, and can be preempted."""


class Fleet(Protocol):
    """What a trainer asks of the coordinator. Every call raises UnavailableError when it does not answer."""

    async def newest(self) -> DrafterWish | None:
        """Return the fleet's drafter; None: nothing was published."""
        ...

    async def publish(self, *, base: DrafterVersion, uri: str, top1: float) -> DrafterVersion:
        """
        Make a drafter the fleet's; return its version.

        Raises:
            StaleVersionError: `base` is not the newest any more.
        """
        ...


class FleetClient:
    """The coordinator behind a gRPC channel."""

    def __init__(self, channel: grpc.aio.Channel, worker_id: str) -> None:
        self._stub = wire.Stub(channel)
        self._worker_id = worker_id

    async def newest(self) -> DrafterWish | None:
        with translated():
            response = await self._stub.GetFleet(wire.pb.GetFleetRequest(), timeout=CALL_S)
        return wire.fleet_from_pb(response).drafter

    async def publish(self, *, base: DrafterVersion, uri: str, top1: float) -> DrafterVersion:
        request = wire.pb.PublishDrafterRequest(
            base_version=base, uri=uri, worker_id=self._worker_id, held_out_top1=top1
        )
        with translated():
            response = await self._stub.PublishDrafter(request, timeout=CALL_S)
        return DrafterVersion(response.drafter_version)
