"""vLLM's endpoints that pause generation, manage memory and report server information."""

from fastapi import APIRouter, Request
from pydantic import JsonValue

from tlt_common.domain.fleet import MEMORY_TAGS
from tlt_common.domain.pause import PauseMode
from tlt_common.errors import InvalidRequestError
from tlt_gateway.gateway import Gateway
from tlt_gateway.http.auth import HttpAuth
from tlt_gateway.http.bodies.body import Body, body_of, no_body
from tlt_gateway.http.bodies.shown import shown


class ResetCache(Body):
    """The body of /reset_prefix_cache."""

    reset_running_requests: bool | None = None
    reset_external: bool | None = None


def router(gateway: Gateway, auth: HttpAuth) -> APIRouter:
    """Return the routes."""
    api = APIRouter()

    @api.post("/pause")
    async def pause(request: Request, mode: str = PauseMode.ABORT, clear_cache: str = "true") -> dict[str, JsonValue]:
        auth.permit(request, "UpdateWeights", query={"mode", "clear_cache"})
        await no_body(request, max_bytes=auth.max_bytes)
        if clear_cache.lower() not in {"true", "false"}:
            raise InvalidRequestError(
                f"clear_cache is {shown(clear_cache)}; accepted: true, false", field="clear_cache"
            )
        if mode not in tuple(PauseMode):
            raise InvalidRequestError(f"mode is {shown(mode)}; accepted: {', '.join(PauseMode)}", field="mode")
        await gateway.pauses.pause(PauseMode(mode), authorization=request.headers.get("authorization"))
        return {"status": "paused"}

    @api.post("/resume")
    async def resume(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "UpdateWeights")
        await no_body(request, max_bytes=auth.max_bytes)
        await gateway.pauses.proceed(authorization=request.headers.get("authorization"))
        return {"status": "resumed"}

    @api.get("/is_paused")
    async def is_paused(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "GetServerInfo")
        await no_body(request, max_bytes=auth.max_bytes)
        return {"is_paused": gateway.pauses.paused}

    @api.post("/reset_prefix_cache")
    async def reset(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "UpdateWeights")
        await body_of(request, ResetCache, max_bytes=auth.max_bytes)
        return {"status": "ok", "message": "Cached prefixes are never used with other weights."}

    @api.post("/sleep")
    async def sleep(request: Request, level: str = "1", mode: str = PauseMode.ABORT) -> dict[str, JsonValue]:
        auth.permit(request, "UpdateWeights", query={"level", "mode"}, lists={"tags"})
        await no_body(request, max_bytes=auth.max_bytes)
        tags = _tags(request)
        if level not in {"1", "2"}:
            raise InvalidRequestError(f"level is {shown(level)}; accepted: 1, 2", field="level")
        if mode not in {PauseMode.ABORT, PauseMode.WAIT}:
            raise InvalidRequestError(f"mode is {shown(mode)}; accepted: abort, wait", field="mode")
        if gateway.memory.releasable:  # as in vLLM: what runs is ended, or waited for
            authorization = request.headers.get("authorization")
            await gateway.pauses.pause(PauseMode(mode), authorization=authorization)
            try:
                await gateway.memory.release(tags, field="level")
            finally:
                await gateway.pauses.proceed(authorization=authorization)
        else:
            await gateway.memory.release(tags, field="level")
        return {"status": "ok", "message": "Memory is released."}

    @api.post("/wake_up")
    async def wake_up(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "UpdateWeights", lists={"tags"})
        await no_body(request, max_bytes=auth.max_bytes)
        await gateway.memory.resume(_tags(request))
        return {"status": "ok", "message": "Memory is resumed."}

    @api.get("/is_sleeping")
    async def is_sleeping(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "GetServerInfo")
        await no_body(request, max_bytes=auth.max_bytes)
        return {"is_sleeping": gateway.memory.released}

    return api


def _tags(request: Request) -> list[str]:
    """
    Return the memory tags to release or resume.

    Raises:
        InvalidRequestError: A tag is unknown.
    """
    tags = request.query_params.getlist("tags")
    if unknown := [tag for tag in tags if tag not in MEMORY_TAGS]:
        raise InvalidRequestError(f"tags has {shown(unknown[0])}; accepted: {', '.join(MEMORY_TAGS)}", field="tags")
    return tags
