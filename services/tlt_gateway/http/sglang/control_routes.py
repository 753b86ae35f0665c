"""SGLang's endpoints that pause generation and update weights."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse

from tlt_common.errors import WeightsError
from tlt_gateway.gateway import Gateway
from tlt_gateway.http.auth import HttpAuth
from tlt_gateway.http.bodies.body import body_of, no_body
from tlt_gateway.http.bodies.updates import named_as_sent, no_tensors
from tlt_gateway.http.sglang.control import MemoryBody, Nothing, PauseBody, UpdateFromDisk


def router(gateway: Gateway, auth: HttpAuth) -> APIRouter:
    """Return the routes."""
    api = APIRouter()

    @api.post("/pause_generation")
    async def pause(request: Request) -> JSONResponse:
        auth.permit(request, "UpdateWeights")
        body = await body_of(request, PauseBody, max_bytes=auth.max_bytes)
        await gateway.pauses.pause(body.kind, authorization=request.headers.get("authorization"))
        return JSONResponse({"status": "ok", "message": "Generation paused successfully."})

    @api.post("/continue_generation")
    async def proceed(request: Request) -> JSONResponse:
        auth.permit(request, "UpdateWeights")
        await body_of(request, Nothing, max_bytes=auth.max_bytes)
        try:
            await gateway.collected.end()
        finally:
            await gateway.pauses.proceed(authorization=request.headers.get("authorization"))
        return JSONResponse({"status": "ok", "message": "Generation continued successfully."})

    @api.post("/update_weights_from_disk")
    async def update(request: Request) -> JSONResponse:
        auth.permit(request, "UpdateWeights")
        body = await body_of(request, UpdateFromDisk, max_bytes=auth.max_bytes)
        wanted = body.update(gateway.info.policy_version)
        try:
            with named_as_sent():
                if wanted.base is not None:
                    await gateway.weights.require_base(wanted.base)
                if body.abort_all_requests:
                    await gateway.abort(
                        [], everything=True, from_peer=False, authorization=request.headers.get("authorization")
                    )
                result = await gateway.weights.update(wanted, no_tensors())
        except WeightsError as error:
            return JSONResponse({"success": False, "message": error.message, "num_paused_requests": 0}, 400)
        message = f"version {result.version} on {result.workers} workers"
        return JSONResponse({"success": True, "message": message, "num_paused_requests": 0})

    @api.api_route("/release_memory_occupation", methods=["GET", "POST"])
    async def release_memory(request: Request) -> JSONResponse:
        auth.permit(request, "UpdateWeights")
        body = await body_of(request, MemoryBody, max_bytes=auth.max_bytes)
        await gateway.memory.release(body.tags or ())
        return JSONResponse({"status": "ok", "message": "Memory is released."})

    @api.api_route("/resume_memory_occupation", methods=["GET", "POST"])
    async def resume_memory(request: Request) -> JSONResponse:
        auth.permit(request, "UpdateWeights")
        body = await body_of(request, MemoryBody, max_bytes=auth.max_bytes)
        await gateway.memory.resume(body.tags or ())
        return JSONResponse({"status": "ok", "message": "Memory is resumed."})

    @api.api_route("/flush_cache", methods=["GET", "POST"])
    async def flush(request: Request) -> PlainTextResponse:
        auth.permit(request, "UpdateWeights", query={"timeout"})
        await no_body(request, max_bytes=auth.max_bytes)
        return PlainTextResponse("Cached prefixes are never used with other weights: there is nothing to flush.\n")

    return api
