"""Stand-in for the coordinator's drafter calls, with compare-and-swap and a competing trainer."""

from typing import Any

from tlt_common.domain.fleet import DrafterWish
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import StaleVersionError
from tlt_common.wire import coordinator as wire


class Drafters(wire.Servicer):
    """The drafter calls of a coordinator."""

    def __init__(self) -> None:
        self._newest: DrafterWish | None = None

    @property
    def version(self) -> DrafterVersion:
        """Version of the newest drafter; 0 if there is none."""
        return self._newest.version if self._newest else DrafterVersion(0)

    def overtake(self) -> None:
        """Republish the newest drafter as another trainer's, so that the next one must be merged with it."""
        if self._newest is not None:
            self._publish(self._newest.uri)

    async def GetDrafter(self, request: Any, context: Any) -> wire.pb.GetDrafterResponse:
        return wire.newest_to_pb(self._newest)

    async def PublishDrafter(self, request: Any, context: Any) -> wire.pb.PublishDrafterResponse:
        if request.base_version != self.version:
            raise StaleVersionError(f"base_version is {request.base_version}; accepted: {self.version}")
        return wire.pb.PublishDrafterResponse(drafter_version=self._publish(request.uri))

    def _publish(self, uri: str) -> DrafterVersion:
        self._newest = DrafterWish(version=DrafterVersion(self.version + 1), uri=uri)
        return self._newest.version
