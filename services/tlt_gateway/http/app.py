"""The gateway's HTTP application."""

from fastapi import FastAPI, Request
from pydantic import JsonValue
from starlette.responses import Response

from tlt_common.errors import InvalidRequestError, UnavailableError
from tlt_common.rpc.http.calls import CountedCalls
from tlt_common.rpc.http.failures import answer_errors, response_to
from tlt_gateway.gateway import Gateway
from tlt_gateway.http.auth import HttpAuth
from tlt_gateway.http.bodies.body import BodyTooLargeError
from tlt_gateway.http.odd_headers import require_known_query
from tlt_gateway.http.openai import chat_routes, token_routes
from tlt_gateway.http.openai.prompting import Prompting
from tlt_gateway.http.openai.routes import router as openai_router
from tlt_gateway.http.openai.turns import Turns
from tlt_gateway.http.sglang import adapter_routes, control_routes, info_routes, tensor_routes
from tlt_gateway.http.sglang.routes import router as sglang_router
from tlt_gateway.http.text.codec import TextCodec
from tlt_gateway.http.vllm import pause_routes, weight_routes


def http_app(gateway: Gateway, auth: HttpAuth, codec: TextCodec, *, chat_bytes: int) -> FastAPI:
    """Return the application, which remembers sampled tokens in `chat_bytes`. Health checks are open to everyone."""
    text = codec.text
    prompting = Prompting(text, codec.template, Turns(max_bytes=chat_bytes), codec.end_tokens)
    # Without redirects: a path with one slash more is another path, and a redirect would name the host of the request.
    api = FastAPI(title="TLT rollout", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    api.add_middleware(CountedCalls, service="Http")
    answer_errors(api, listed_in="docs/http.md")
    api.add_exception_handler(BodyTooLargeError, _too_large)
    api.include_router(sglang_router(gateway, auth, text))
    for routes in (control_routes, tensor_routes, adapter_routes, info_routes, pause_routes, weight_routes):
        api.include_router(routes.router(gateway, auth))
    api.include_router(openai_router(gateway, auth, text))
    api.include_router(chat_routes.router(gateway, auth, text, codec.tools, prompting))
    api.include_router(token_routes.router(gateway, auth, text, prompting))

    @api.get("/health")
    @api.get("/health_generate")
    @api.get("/liveness")
    async def health(request: Request) -> dict[str, JsonValue]:
        require_known_query(request, ())
        if not gateway.info.workers:
            raise UnavailableError("no worker is available")
        return {"status": "ok"}

    return api


async def _too_large(_request: Request, error: Exception) -> Response:
    """Return the response to a call whose body is too large. The rest of the body is not read."""
    answer = response_to(InvalidRequestError(str(error), field="body"), 413)
    answer.headers["Connection"] = "close"
    return answer
