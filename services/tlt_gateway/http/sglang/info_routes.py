"""SGLang's endpoints that report the served model and its workers."""

from math import isfinite
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import JsonValue

from tlt_common.errors import InvalidRequestError
from tlt_gateway.gateway import Gateway
from tlt_gateway.http.auth import HttpAuth
from tlt_gateway.http.bodies.address import address_in
from tlt_gateway.http.bodies.body import Body, body_of, no_body
from tlt_gateway.http.bodies.shown import shown
from tlt_gateway.http.bodies.updates import WORLD_SIZE


class Register(Body):
    """The body of a call that registers a worker with SGLang's router."""

    url: str
    worker_type: Literal["regular"] = "regular"


def router(gateway: Gateway, auth: HttpAuth) -> APIRouter:
    """Return the routes."""
    api = APIRouter()

    @api.get("/get_weight_version")
    @api.get("/weight_version")
    async def version(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "GetServerInfo")
        await no_body(request, max_bytes=auth.max_bytes)
        return {"weight_version": str(gateway.info.policy_version)}

    @api.get("/model_info")
    @api.get("/get_model_info")
    async def model(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "GetServerInfo")
        await no_body(request, max_bytes=auth.max_bytes)
        info = gateway.info
        return {
            "model_path": info.model,
            "served_model_name": info.model,
            "tokenizer_path": info.model,
            "is_generation": True,
            "weight_version": str(info.policy_version),
        }

    @api.get("/server_info")
    @api.get("/get_server_info")
    async def server(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "GetServerInfo")
        await no_body(request, max_bytes=auth.max_bytes)
        info = gateway.info
        return {
            "model_path": info.model,
            "served_model_name": info.model,
            "weight_version": str(info.policy_version),
            "drafter_version": info.drafter_version,
            "context_length": info.context_length,
            "max_req_input_len": max(0, info.context_length - 1),
            "vocab_size": info.vocab_size,
            "num_workers": info.workers,
            # The fleet is one rank in a trainer's process group, however many devices it has.
            **dict.fromkeys(("tp_size", "pp_size", "dp_size", "ep_size", "num_gpus"), WORLD_SIZE),
            "enable_memory_saver": False,  # slime compares it with its own arguments
            "paused": info.pause.holds,
            "pause_left_s": info.pause.left_s if isfinite(info.pause.left_s) else None,
            "version": f"tlt-{info.server_version}",
        }

    @api.get("/workers")
    async def workers(request: Request) -> dict[str, JsonValue]:
        """
        List the addresses that accept requests, aborts and load queries, as SGLang's router does: this gateway, for all
        workers.
        """
        auth.permit(request, "GetServerInfo")
        await no_body(request, max_bytes=auth.max_bytes)
        here: dict[str, JsonValue] = {
            "url": str(request.base_url).rstrip("/"),
            "model_id": gateway.info.model,
            "worker_type": "regular",
            "is_healthy": gateway.info.workers > 0,
        }
        return {"workers": [here], "total": 1}

    @api.post("/workers")
    async def register(request: Request) -> dict[str, JsonValue]:
        """Accept a registration of this gateway: slime registers each engine it was given, here the gateway."""
        auth.permit(request, "GetServerInfo")
        body = await body_of(request, Register, max_bytes=auth.max_bytes)
        if address_in("url", body.url).netloc != request.url.netloc:
            raise InvalidRequestError(
                f"url is {shown(body.url)}; accepted: {str(request.base_url).rstrip('/')!r}, this gateway: workers of "
                "the suite join it by themselves",
                field="url",
            )
        return {"status": "accepted", "url": body.url}

    @api.get("/v1/loads")
    async def loads(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "GetServerInfo")
        await no_body(request, max_bytes=auth.max_bytes)
        info = gateway.info
        load: dict[str, JsonValue] = {
            "dp_rank": 0,
            "num_running_reqs": info.running,
            "num_waiting_reqs": info.queued,
            "num_total_reqs": info.running + info.queued,
        }
        return {"loads": [load], "dp_rank_count": 1}

    return api
