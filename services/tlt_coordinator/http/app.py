"""The HTTP application of a coordinator: the page, its API, the status page and health."""

from collections.abc import Collection
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from tlt_common import __version__
from tlt_common.rpc.http.calls import CountedCalls
from tlt_common.rpc.http.failures import answer_errors
from tlt_common.rpc.security.access import Access
from tlt_coordinator.http import api, bundle, event_stream, status, timeline, trace
from tlt_coordinator.http.answers import ChangesEvent, ResyncEvent, TroubleAnswer
from tlt_coordinator.http.event_feed import EventFeed
from tlt_coordinator.http.viewer_access import PAGE, ViewerAccess
from tlt_coordinator.observer import Observer

PREFIX = "/api/v1"
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": TroubleAnswer, "description": "A parameter is wrong; `param` names it."},
    401: {"model": TroubleAnswer, "description": "There is no valid token."},
    403: {"model": TroubleAnswer, "description": "The token lacks the scope observe."},
    404: {"model": TroubleAnswer, "description": "The worker was never seen."},
}


def app(observer: Observer, feed: EventFeed, access: Access | None = None, hosts: Collection[str] = ()) -> FastAPI:
    """
    Return the application.

    Args:
        observer: Knows the answers.
        feed: Makes its events; runs beside the application.
        access: Access control; None: everybody has access.
        hosts: See `ViewerAccess`.
    """
    served = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    served.add_middleware(CountedCalls, service=PAGE)
    answer_errors(served, listed_in="docs/api.md")
    viewers = ViewerAccess(access, hosts)
    admitted = [Depends(viewers.admit)]
    routes = APIRouter(prefix=PREFIX, dependencies=admitted, responses=REFUSALS)
    routes.include_router(api.router_of(observer))
    routes.include_router(event_stream.router_of(feed, viewers))
    routes.include_router(timeline.router_of(observer))
    routes.include_router(trace.router_of(observer))
    served.include_router(routes)
    served.include_router(status.router_of(observer), dependencies=admitted)
    served.include_router(bundle.router_of())
    document = openapi_of(routes)

    @served.get(f"{PREFIX}/openapi.json", include_in_schema=False)
    async def openapi() -> dict[str, Any]:
        return document

    @served.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    return served


def openapi_of(routes: APIRouter) -> dict[str, Any]:
    """Return the OpenAPI description."""
    found = get_openapi(title="TLT coordinator", version=__version__, routes=routes.routes)
    for methods in found["paths"].values():
        for operation in methods.values():
            operation["responses"].pop("422", None)  # answered with 400
    components = found.setdefault("components", {})
    _, events = models_json_schema(
        [(ChangesEvent, "serialization"), (ResyncEvent, "serialization")], ref_template="#/components/schemas/{model}"
    )
    schemas = components.setdefault("schemas", {})
    schemas |= events["$defs"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    kinds = [{"$ref": f"#/components/schemas/{model.__name__}"} for model in (ChangesEvent, ResyncEvent)]
    found["paths"][f"{PREFIX}/events"]["get"]["responses"]["200"] |= {
        "description": "Server-sent events; the data of each is one of these.",
        "content": {"text/event-stream": {"schema": {"oneOf": kinds}}},
    }
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{"token": []}, {}]  # without a token file, nobody needs one
    return found
