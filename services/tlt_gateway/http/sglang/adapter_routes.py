"""SGLang's, vLLM's and SkyRL's endpoints that load and unload adapters (LoRA)."""

from collections.abc import Awaitable

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse

from tlt_common.domain.weights import UpdateResult
from tlt_common.errors import NotFoundError, TltError, UnavailableError, WeightsError
from tlt_common.rpc.http.failures import status_of
from tlt_gateway.gateway import Gateway
from tlt_gateway.http.auth import HttpAuth
from tlt_gateway.http.bodies.body import body_of, renamed
from tlt_gateway.http.sglang.adapters import LoadAdapter, LoadAdapterTensors, UnloadAdapter


def router(gateway: Gateway, auth: HttpAuth) -> APIRouter:
    """Return the routes."""
    api = APIRouter()

    async def loaded(request: Request) -> tuple[LoadAdapter, UpdateResult]:
        auth.permit(request, "UpdateWeights")
        body = await body_of(request, LoadAdapter, max_bytes=auth.max_bytes)
        version = body.version(gateway.info.policy_version)
        return body, await gateway.adapters.load(body.lora_name, body.source, version)

    async def loaded_tensors(request: Request) -> tuple[LoadAdapterTensors, UpdateResult]:
        auth.permit(request, "UpdateWeights")
        body = await body_of(request, LoadAdapterTensors, max_bytes=auth.max_bytes)
        content, version = body.content, body.version(gateway.info.policy_version)
        try:
            return body, await gateway.adapters.load(body.lora_name, content, version, config=body.config_dict)
        except TltError as error:
            raise renamed(error, {"serialized_named_tensors": body.field}) from None

    async def unloaded(request: Request) -> tuple[UnloadAdapter, UpdateResult]:
        auth.permit(request, "UpdateWeights")
        body = await body_of(request, UnloadAdapter, max_bytes=auth.max_bytes)
        version = body.version(gateway.info.policy_version)
        return body, await gateway.adapters.unload(body.lora_name, version)

    @api.post("/load_lora_adapter")
    async def load(request: Request) -> JSONResponse:
        return await _told(gateway, loaded(request))

    @api.post("/load_lora_adapter_from_tensors")
    async def load_tensors(request: Request) -> JSONResponse:
        return await _told(gateway, loaded_tensors(request))

    @api.post("/unload_lora_adapter")
    async def unload(request: Request) -> JSONResponse:
        return await _told(gateway, unloaded(request))

    @api.post("/v1/load_lora_adapter")
    @api.post("/skyrl/v1/load_lora_adapter")
    async def add(request: Request) -> PlainTextResponse:
        body, _ = await loaded(request)
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' added successfully.")

    @api.post("/v1/unload_lora_adapter")
    async def remove(request: Request) -> PlainTextResponse:
        body, _ = await unloaded(request)
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' removed successfully.")

    return api


async def _told(gateway: Gateway, work: Awaitable[tuple[object, UpdateResult]]) -> JSONResponse:
    """Return the answer to a call in SGLang's format."""
    try:
        _, result = await work
    except (WeightsError, UnavailableError, NotFoundError) as error:
        return JSONResponse({"success": False, "error_message": error.message}, status_of(error))
    message = f"version {result.version} on {result.workers} workers"
    names = [gateway.adapters.name] if gateway.adapters.name else []
    return JSONResponse(
        {"success": True, "error_message": None, "message": message, "loaded_adapters": {name: name for name in names}}
    )
