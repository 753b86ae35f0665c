"""Endpoints that tokenize text and messages and detokenize tokens, under vLLM's and SGLang's names."""

from fastapi import APIRouter, Request, Response
from pydantic import JsonValue

from tlt_gateway.gateway import Gateway
from tlt_gateway.http.answers import answered
from tlt_gateway.http.auth import HttpAuth
from tlt_gateway.http.bodies.body import body_of
from tlt_gateway.http.models import require_model
from tlt_gateway.http.openai.chat_requests import Detokenize, Tokenize
from tlt_gateway.http.openai.prompting import Prompting
from tlt_gateway.http.session import session_of
from tlt_gateway.http.text.text import Text, require_short


def router(gateway: Gateway, auth: HttpAuth, text: Text, prompting: Prompting) -> APIRouter:
    """Return the routes."""
    api = APIRouter()

    @api.post("/tokenize")
    @api.post("/v1/tokenize")
    async def tokenize(request: Request) -> Response:
        name = auth.permit(request, "Generate")
        body = await body_of(request, Tokenize, max_bytes=auth.max_bytes)
        await require_model(gateway, body.model)
        require_short(
            [*body.texts, body.prompt or ""],
            field="messages" if body.prompt is None else "prompt",
            context_length=gateway.info.context_length,
        )
        ids = await body.token_ids(text, prompting, owner=name, session=session_of(request))
        found = {
            "count": len(ids),
            "max_model_len": gateway.info.context_length,
            "tokens": ids,
            "token_strs": await text.pieces(ids, field="tokens") if body.return_token_strs else None,
        }
        return await answered(lambda: found, tokens=len(ids))

    @api.post("/detokenize")
    @api.post("/v1/detokenize")
    async def detokenize(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "Generate")
        body = await body_of(request, Detokenize, max_bytes=auth.max_bytes)
        await require_model(gateway, body.model)
        await text.pieces(body.tokens, field="tokens")
        said = await text.shown(body.tokens, skip_special_tokens=body.skip_special_tokens)
        return {"prompt": said, "text": said}  # vLLM's name and SGLang's

    return api
