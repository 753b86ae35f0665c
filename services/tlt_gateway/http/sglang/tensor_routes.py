"""SGLang's endpoints that send weights as tensors."""

import asyncio
from collections.abc import Awaitable

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.transfer import ChangesPart
from tlt_common.domain.weights import UpdateResult
from tlt_common.errors import NotFoundError, UnavailableError, WeightsError
from tlt_common.rpc.http.failures import status_of
from tlt_gateway.gateway import Gateway
from tlt_gateway.http.auth import HttpAuth
from tlt_gateway.http.bodies.body import body_of
from tlt_gateway.http.bodies.updates import named_as_sent, version_of
from tlt_gateway.http.sglang.control import Nothing
from tlt_gateway.http.sglang.tensors import DestroyGroup, EndUpdate, InitGroup, UpdateFromGroup, UpdateFromTensor


def router(gateway: Gateway, auth: HttpAuth) -> APIRouter:
    """Return the routes."""
    api = APIRouter()

    @api.post("/init_weights_update_group")
    async def init(request: Request) -> JSONResponse:
        auth.permit(request, "UpdateWeights")
        body = await body_of(request, InitGroup, max_bytes=auth.max_bytes)
        return await _told(gateway.collected.join(body.member), done="joined the group as one rank")

    @api.post("/destroy_weights_update_group")
    async def destroy(request: Request) -> JSONResponse:
        auth.permit(request, "UpdateWeights")
        body = await body_of(request, DestroyGroup, max_bytes=auth.max_bytes)
        return await _told(gateway.collected.leave(body.group_name), done="left the group")

    @api.post("/update_weights_from_distributed")
    async def from_group(request: Request) -> JSONResponse:
        auth.permit(request, "UpdateWeights")
        body = await body_of(request, UpdateFromGroup, max_bytes=auth.max_bytes)
        version = version_of(body.weight_version, served=gateway.info.policy_version)
        broadcast = await asyncio.to_thread(lambda: body.broadcast)  # of a hundred thousand tensors, maybe
        await _aborted(gateway, request, everything=body.abort_all_requests)
        return await _told(gateway.collected.receive(broadcast, version), done="received; tensors are missing")

    @api.post("/update_weights_from_tensor")
    async def from_tensor(request: Request) -> JSONResponse:
        auth.permit(request, "UpdateWeights")
        body = await body_of(request, UpdateFromTensor, max_bytes=auth.max_bytes)
        version = version_of(body.weight_version, served=gateway.info.policy_version)
        part, content = body.changes(gateway.info.policy_version), body.content
        if part is not None:
            with named_as_sent():
                await gateway.weights.require_base(part.base)
        await _aborted(gateway, request, everything=body.abort_all_requests)
        if part is None:
            return await _told(gateway.collected.collect(content, version), done="received; tensors are missing")
        work = _changed(gateway, content, part, version if body.part is None else None)
        return await _told(work, done=f"part {part.number} is held; end the update")

    @api.post("/begin_weight_update")
    async def begin(request: Request) -> JSONResponse:
        auth.permit(request, "UpdateWeights")
        await body_of(request, Nothing, max_bytes=auth.max_bytes)
        return await _told(gateway.collected.end(), done="no update is open")

    @api.post("/end_weight_update")
    async def end(request: Request) -> JSONResponse:
        auth.permit(request, "UpdateWeights")
        body = await body_of(request, EndUpdate, max_bytes=auth.max_bytes)
        served = gateway.info.policy_version
        if (following := body.following(served)) is None:
            return await _told(gateway.collected.end(), done="no update is open")
        version = version_of(body.weight_version, served=served)
        return await _told(gateway.collected.end_changes(following, version), done="installed")

    return api


async def _changed(
    gateway: Gateway, content: bytes, part: ChangesPart, version: PolicyVersion | None
) -> UpdateResult | None:
    """Receive changes; install them as `version` unless it is None."""
    await gateway.collected.collect_changes(content, part)
    return None if version is None else await gateway.collected.end_changes(part.next, version)


async def _aborted(gateway: Gateway, request: Request, *, everything: bool) -> None:
    if everything:
        await gateway.abort([], everything=True, from_peer=False, authorization=request.headers.get("authorization"))


async def _told(work: Awaitable[UpdateResult | None], *, done: str) -> JSONResponse:
    """Return the answer to a call in SGLang's format."""
    try:
        with named_as_sent():
            result = await work
    except (WeightsError, UnavailableError, NotFoundError) as error:
        return JSONResponse({"success": False, "message": error.message}, status_of(error))
    message = done if result is None else f"version {result.version} on {result.workers} workers"
    return JSONResponse({"success": True, "message": message})
