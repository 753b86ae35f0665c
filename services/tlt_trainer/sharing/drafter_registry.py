"""The fleet's drafter at the coordinator: reads the newest version and publishes newer ones."""

from typing import Protocol

import grpc

from tlt_common.domain.fleet import DrafterWish, Publication
from tlt_common.domain.ids import DrafterVersion
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire

CALL_S = 3.0
"""Time limit of a call, in seconds. Training pauses meanwhile, and can be preempted."""


class DrafterRegistry(Protocol):
    """The coordinator's drafter calls. Each raises UnavailableError when the coordinator is unreachable."""

    async def newest(self) -> DrafterWish | None:
        """Return the fleet's drafter, or None if none was published."""
        ...

    async def publish(self, publication: Publication) -> DrafterVersion:
        """
        Make a drafter the fleet's newest; return its version.

        Raises:
            StaleVersionError: Its base is no longer the newest.
            InvalidRequestError: It scores clearly below the newest, or is incomplete.
        """
        ...


class CoordinatorClient:
    """The coordinator behind a gRPC channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = wire.Stub(channel)

    async def newest(self) -> DrafterWish | None:
        with translated():
            response = await self._stub.GetDrafter(wire.pb.GetDrafterRequest(), timeout=CALL_S)
        return wire.newest_from_pb(response)

    async def publish(self, publication: Publication) -> DrafterVersion:
        with translated():
            response = await self._stub.PublishDrafter(wire.publication_to_pb(publication), timeout=CALL_S)
        return DrafterVersion(response.drafter_version)
