"""gRPC servicer of tlt.trainer.v1, for the worker in the same pod."""

from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit
from urllib.request import url2pathname

import grpc

from tlt_common.domain.bounds import INT64_MAX, MAX_URI, require_name, require_range
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion
from tlt_common.errors import InvalidRequestError
from tlt_common.wire import trainer as wire
from tlt_trainer.sharing.decision import TrainingDecisions
from tlt_trainer.training_loop import TrainingLoop

MAX_TTL_S = 86_400.0
"""Maximum time to live of a lease, in seconds."""

MAX_ACCEPT_LENGTH = 1e6
"""More than any engine's accept length, in tokens."""

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class TrainerServicer(wire.Servicer):
    """Decodes, delegates, encodes."""

    def __init__(self, loop: TrainingLoop, decisions: TrainingDecisions) -> None:
        self._loop = loop
        self._decisions = decisions

    async def Start(
        self,
        request: wire.pb.StartRequest,
        context: Context,
    ) -> wire.pb.StartResponse:
        require_range("epoch", request.epoch, low=1, high=INT64_MAX)
        require_range("ttl_s", request.ttl_s, low=0.0, high=MAX_TTL_S, open_low=True)
        require_range("policy_version", request.policy_version, low=0, high=INT64_MAX)
        require_name("policy_uri", request.policy_uri, least=1, most=MAX_URI)
        require_range("drafter_version", request.drafter_version, low=0, high=INT64_MAX)
        require_range("accept_length", request.accept_length, low=0.0, high=MAX_ACCEPT_LENGTH)
        self._decisions.engine_reached(request.accept_length)
        await self._loop.start(
            Epoch(request.epoch),
            request.ttl_s,
            path_of(request.policy_uri),
            PolicyVersion(request.policy_version),
            newest=DrafterVersion(request.drafter_version) if request.HasField("drafter_version") else None,
        )
        return wire.pb.StartResponse()

    async def Preempt(
        self,
        request: wire.pb.PreemptRequest,
        context: Context,
    ) -> wire.pb.PreemptResponse:
        progress = await self._loop.preempt(Epoch(request.epoch))
        return wire.pb.PreemptResponse(progress=wire.progress_to_pb(progress))

    async def Prepare(
        self,
        request: wire.pb.PrepareRequest,
        context: Context,
    ) -> wire.pb.PrepareResponse:
        require_range("policy_version", request.policy_version, low=0, high=INT64_MAX)
        require_name("policy_uri", request.policy_uri, least=1, most=MAX_URI)
        self._loop.prepare(path_of(request.policy_uri), PolicyVersion(request.policy_version))
        return wire.pb.PrepareResponse()

    async def GetProgress(
        self,
        request: wire.pb.GetProgressRequest,
        context: Context,
    ) -> wire.pb.GetProgressResponse:
        return wire.pb.GetProgressResponse(progress=wire.progress_to_pb(self._loop.progress))


def path_of(uri: str) -> Path:
    """
    Return the local directory of a path or file:// URI.

    Raises:
        InvalidRequestError: The URI is empty or of another kind.
    """
    parts = urlsplit(uri)
    if parts.scheme not in {"", "file"} or not parts.path:
        raise InvalidRequestError(f"policy_uri is {uri!r}; accepted: a path or file:// URI", field="policy_uri")
    return Path(url2pathname(parts.path))
