"""The gateway's HTTP application."""

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import JsonValue

from tlt_common.errors import NotFoundError, TltError, UnavailableError
from tlt_gateway.gateway import Gateway
from tlt_gateway.http import failures
from tlt_gateway.http.body import BodyTooLargeError
from tlt_gateway.http.door import Door
from tlt_gateway.http.language import Language
from tlt_gateway.http.openai import chat_routes
from tlt_gateway.http.openai.prompting import Prompting
from tlt_gateway.http.openai.routes import router as openai_router
from tlt_gateway.http.openai.turns import Turns
from tlt_gateway.http.sglang import control_routes, info_routes, tensor_routes
from tlt_gateway.http.sglang.routes import router as sglang_router
from tlt_gateway.http.vllm import pause_routes, weight_routes


def http_app(gateway: Gateway, door: Door, language: Language) -> FastAPI:
    """Return the application. Health checks are open to everyone."""
    text = language.text
    prompting = Prompting(text, language.template, Turns(), language.end_tokens)
    api = FastAPI(title="TLT rollout", docs_url=None, redoc_url=None, openapi_url=None)
    api.add_exception_handler(TltError, failures.answer)
    api.add_exception_handler(BodyTooLargeError, failures.too_large)
    api.add_exception_handler(404, _unknown)
    api.include_router(sglang_router(gateway, door, text))
    for routes in (control_routes, tensor_routes, info_routes, pause_routes, weight_routes):
        api.include_router(routes.router(gateway, door))
    api.include_router(openai_router(gateway, door, text))
    api.include_router(chat_routes.router(gateway, door, text, language.tools, prompting))

    @api.get("/health")
    @api.get("/health_generate")
    @api.get("/liveness")
    async def health() -> dict[str, JsonValue]:
        if not gateway.info.workers:
            raise UnavailableError("no worker is available")
        return {"status": "ok"}

    return api


async def _unknown(request: Request, _error: Exception) -> JSONResponse:
    error = NotFoundError(f"{request.method} {request.url.path} is not served here; docs/http.md lists what is")
    return JSONResponse(failures.content_of(error), 404)
