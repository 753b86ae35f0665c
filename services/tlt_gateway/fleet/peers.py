"""The other gateways of the same fleet."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

from tlt_common.config.base import TlsSettings
from tlt_common.domain.ids import RequestId
from tlt_common.domain.pause import Pause, PauseMode
from tlt_common.errors import TltError, UnavailableError
from tlt_common.rpc.addresses import resolved
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import is_transient, translated
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import rollout as wire

log = get_logger(__name__)

CALL_S = 2.0
"""Deadline, in seconds, of a call to a peer. One that is down has no requests to abort."""
PAUSE_S = 10.0
"""Deadline, in seconds, of a pause at a peer, which waits for the workers to end its requests."""

Metadata: TypeAlias = tuple[tuple[str, str], ...]
Answer = TypeVar("Answer")


class GatewayPeers:
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
        metadata = _credential(authorization)

        async def aborted(stub: wire.AsyncStub) -> Sequence[str]:
            return (await stub.Abort(request, timeout=CALL_S, metadata=metadata)).request_ids

        answers = await self._each(aborted)
        return {RequestId(name) for answer in answers.values() if not isinstance(answer, TltError) for name in answer}

    async def pause(self, mode: PauseMode, pause: Pause, *, authorization: str | None) -> None:
        """
        Pause all peers, on behalf of a caller.

        Raises:
            UnavailableError: A peer, named in the message, did not answer and may not have paused.
        """
        request, metadata = wire.pause_to_pb(mode, pause), _credential(authorization)
        within_s = None if mode is PauseMode.WAIT else PAUSE_S
        self._require_all(
            await self._each(lambda stub: stub.Pause(request, timeout=within_s, metadata=metadata)), "pause"
        )

    async def proceed(self, end: Pause, *, authorization: str | None) -> None:
        """
        Tell all peers to resume, on behalf of a caller.

        Raises:
            UnavailableError: A peer, named in the message, did not answer, and may still be paused.
        """
        request, metadata = wire.pb.ProceedRequest(from_peer=True, epoch=end.epoch), _credential(authorization)
        self._require_all(
            await self._each(lambda stub: stub.Proceed(request, timeout=CALL_S, metadata=metadata)), "proceed"
        )

    async def _each(self, call: Callable[[wire.AsyncStub], Awaitable[Answer]]) -> dict[str, Answer | TltError]:
        """
        Call each peer and return its answer, by address. All calls are idempotent: one that fails is retried once, so
        that only a peer that is down counts as down.
        """

        async def asked(address: str, *, again: bool = True) -> Answer | TltError:
            try:
                async with connect(address, to="gateway", tls=self._tls) as channel:
                    with translated():
                        return await call(wire.Stub(channel))
            except TltError as error:
                if again and is_transient(error):
                    return await asked(address, again=False)
                log.warning("peer_failed", peer=address, error=error.message)
                return error

        addresses = await resolved(self._endpoints)
        return dict(zip(addresses, await asyncio.gather(*map(asked, addresses)), strict=True))

    def _require_all(self, answers: dict[str, Answer | TltError], what: str) -> None:
        """Require an answer from every peer that is up. A peer that refuses connections is down and ignored."""
        for address, answer in answers.items():
            if isinstance(answer, TltError) and not is_transient(answer):
                raise UnavailableError(f"gateway {address} did not {what}: {answer.message}")


def _credential(authorization: str | None) -> Metadata:
    return (("authorization", authorization),) if authorization else ()
