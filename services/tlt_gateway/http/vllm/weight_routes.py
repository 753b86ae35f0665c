"""vLLM's endpoints that update weights."""

import asyncio
from pathlib import Path
from urllib.parse import unquote

from fastapi import APIRouter, Request
from pydantic import JsonValue

from tlt_common.disk import on_disk
from tlt_common.domain.weights import WeightsUpdate
from tlt_common.errors import InvalidRequestError
from tlt_gateway.gateway import Gateway
from tlt_gateway.http.auth import HttpAuth
from tlt_gateway.http.bodies.address import address_in
from tlt_gateway.http.bodies.body import body_of, no_body
from tlt_gateway.http.bodies.updates import WORLD_SIZE, no_tensors, version_of
from tlt_gateway.http.vllm.weights import Fetch, InitTransfer, StartWeightUpdate, Update

OK: dict[str, JsonValue] = {"status": "ok"}


MARKER = "STABLE"
WAIT_S = 60.0
POLL_S = 0.2


def router(gateway: Gateway, auth: HttpAuth) -> APIRouter:
    """Return the routes."""
    api = APIRouter()

    @api.get("/get_world_size")
    async def world_size(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "GetServerInfo")
        await no_body(request, max_bytes=auth.max_bytes)
        return {"world_size": WORLD_SIZE}

    @api.post("/init_weight_transfer_engine")
    async def init(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "UpdateWeights")
        body = await body_of(request, InitTransfer, max_bytes=auth.max_bytes)
        await gateway.collected.join(body.member)
        return OK

    @api.post("/start_weight_update")
    async def start(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "UpdateWeights")
        await body_of(request, StartWeightUpdate, max_bytes=auth.max_bytes)
        return OK

    @api.post("/update_weights")
    async def update(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "UpdateWeights")
        body = await body_of(request, Update, max_bytes=auth.max_bytes)
        if (body.update_info is None) == (body.weight_dir is None):
            raise InvalidRequestError("accepted: either update_info or weight_dir", field="update_info")
        version = version_of(body.weight_version, served=gateway.info.policy_version)
        if (info := body.update_info) is not None:
            await gateway.collected.receive(await asyncio.to_thread(lambda: info.broadcast), version)
        elif body.weight_dir is not None:
            await until_stable(body.weight_dir)
            await gateway.weights.update(WeightsUpdate(version=version, uri=body.weight_dir), no_tensors())
        return OK

    @api.post("/finish_weight_update")
    async def finish(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "UpdateWeights")
        await body_of(request, StartWeightUpdate, max_bytes=auth.max_bytes)
        await gateway.collected.end()
        return OK

    @api.post("/fetch_weights")
    async def fetch(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "UpdateWeights")
        body = await body_of(request, Fetch, max_bytes=auth.max_bytes)
        version = version_of(body.target_version, served=gateway.info.policy_version, field="target_version")
        result = await gateway.weights.update(WeightsUpdate(version=version, uri=body.source), no_tensors())
        return {**OK, "result": {"version": result.version, "workers": result.workers}}

    @api.post("/init_broadcaster")
    async def broadcaster(request: Request) -> None:
        auth.permit(request, "UpdateWeights")
        raise InvalidRequestError(
            "/init_broadcaster makes a group of vLLM's own NCCL communicator, which is not supported; accepted: "
            "/update_weights with weight_dir, or /init_weights_update_group",
            field="host",
        )

    @api.post("/pull_weights")
    async def pull(request: Request) -> None:
        auth.permit(request, "UpdateWeights")
        raise InvalidRequestError(
            "/pull_weights applies compressed differences to a local checkpoint, which workers do not keep; accepted: "
            "whole checkpoints (slime: --update-weight-mode full, without --update-weight-local-checkpoint-dir), or "
            "changes with a base_version in /update_weights_from_disk and /update_weights_from_tensor",
            field="source_dir",
        )

    return api


async def until_stable(directory: str) -> None:
    """
    Wait for the marker file of a directory that this gateway can see. For others, such as object stores, workers check.

    Raises:
        InvalidRequestError: The address is malformed, or there is no marker after `WAIT_S` seconds.
    """
    parts = address_in("weight_dir", directory)
    if parts.scheme not in {"", "file"}:
        return
    path = Path(unquote(parts.path))
    try:
        async with asyncio.timeout(WAIT_S):
            while await on_disk(_is_unfinished, path):  # noqa: ASYNC110 - another machine writes it
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise InvalidRequestError(
            f"weight_dir is {directory}, which has no file {MARKER} after {WAIT_S:g} s; accepted: a directory that is "
            "complete",
            field="weight_dir",
        ) from None


def _is_unfinished(directory: Path) -> bool:
    return directory.is_dir() and not (directory / MARKER).exists()
