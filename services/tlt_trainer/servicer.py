"""tlt.trainer.v1, served to the worker of the same pod."""

from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit
from urllib.request import url2pathname

import grpc

from tlt_common.domain.ids import Epoch, PolicyVersion
from tlt_common.errors import InvalidRequestError
from tlt_common.wire import trainer as wire
from tlt_trainer.loop import Loop

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class TrainerServicer(wire.Servicer):
    """Decodes, delegates, encodes."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    async def Start(
        self,
        request: wire.pb.StartRequest,
        context: Context,
    ) -> wire.pb.StartResponse:
        if request.epoch < 1:
            raise InvalidRequestError(f"epoch is {request.epoch}; accepted: 1 and above", field="epoch")
        if not request.ttl_s > 0:
            raise InvalidRequestError(f"ttl_s is {request.ttl_s}; accepted: above 0", field="ttl_s")
        await self._loop.start(
            Epoch(request.epoch), request.ttl_s, path_of(request.policy_uri), PolicyVersion(request.policy_version)
        )
        return wire.pb.StartResponse()

    async def Preempt(
        self,
        request: wire.pb.PreemptRequest,
        context: Context,
    ) -> wire.pb.PreemptResponse:
        progress = await self._loop.preempt(Epoch(request.epoch))
        return wire.pb.PreemptResponse(progress=wire.progress_to_pb(progress))

    async def GetProgress(
        self,
        request: wire.pb.GetProgressRequest,
        context: Context,
    ) -> wire.pb.GetProgressResponse:
        return wire.pb.GetProgressResponse(progress=wire.progress_to_pb(self._loop.progress))


def path_of(uri: str) -> Path:
    """
    Return the local directory a path or file:// URI names.

    Raises:
        InvalidRequestError: It is another kind of URI, or empty.
    """
    parts = urlsplit(uri)
    if parts.scheme not in {"", "file"} or not parts.path:
        raise InvalidRequestError(f"policy_uri is {uri!r}; accepted: a path or file:// URI", field="policy_uri")
    return Path(url2pathname(parts.path))
