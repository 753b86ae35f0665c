"""The other gateways of the same fleet."""

import asyncio
from collections.abc import Iterable, Sequence

from tlt_common.config.base import TlsSettings
from tlt_common.domain.ids import RequestId
from tlt_common.errors import TltError
from tlt_common.rpc.addresses import resolved
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import rollout as wire

log = get_logger(__name__)

CALL_S = 2.0
"""Deadline, in seconds, of a call to a peer. One that is down has no requests to abort."""


class Peers:
    """
    Args:
        endpoints: host:port of each, or names with several addresses. This gateway may be among them.
    """

    def __init__(self, endpoints: Sequence[str], *, tls: TlsSettings | None) -> None:
        self._endpoints = endpoints
        self._tls = tls

    async def abort(
        self, request_ids: Iterable[RequestId], *, everything: bool, authorization: str | None
    ) -> set[RequestId]:
        """Abort requests at all peers, on behalf of a caller; return the ids of those aborted."""
        request = wire.pb.AbortRequest(request_ids=request_ids, all=everything, from_peer=True)
        metadata = (("authorization", authorization),) if authorization else ()
        addresses = await resolved(self._endpoints)
        answers = await asyncio.gather(*(self._abort(address, request, metadata) for address in addresses))
        return {request_id for answer in answers for request_id in answer}

    async def _abort(
        self, address: str, request: wire.pb.AbortRequest, metadata: tuple[tuple[str, str], ...]
    ) -> list[RequestId]:
        try:
            async with connect(address, to="gateway", tls=self._tls) as channel:
                with translated():
                    answer = await wire.Stub(channel).Abort(request, timeout=CALL_S, metadata=metadata)
        except TltError as error:
            log.warning("peer_abort_failed", peer=address, error=error.message)
            return []
        return [RequestId(request_id) for request_id in answer.request_ids]
