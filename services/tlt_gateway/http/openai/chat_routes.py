"""OpenAI's chat endpoint, and vLLM's endpoints that return messages as tokens."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import JsonValue

from tlt_common.domain.bounds import MAX_SESSION_ID, require_name
from tlt_common.domain.request_ids import new_request_id
from tlt_common.errors import TltError
from tlt_gateway.gateway import Gateway
from tlt_gateway.http.answers import answered
from tlt_gateway.http.auth import HttpAuth
from tlt_gateway.http.bodies.body import body_of, no_body, renamed
from tlt_gateway.http.events import EventResponse
from tlt_gateway.http.generation import HttpGeneration, unless_hung_up
from tlt_gateway.http.models import require_model
from tlt_gateway.http.openai.chat import ChatCall
from tlt_gateway.http.openai.chat_requests import CHAT_NAMES, ID_NAMES, ChatRequest
from tlt_gateway.http.openai.prompting import Prompting
from tlt_gateway.http.session import session_of
from tlt_gateway.http.text.text import Text, require_short
from tlt_gateway.http.text.tools import ToolParser


def router(gateway: Gateway, auth: HttpAuth, text: Text, tools: ToolParser, prompting: Prompting) -> APIRouter:
    """Return the routes."""
    api, of_messages, of_ids = (
        APIRouter(),
        HttpGeneration(gateway.batches, CHAT_NAMES),
        HttpGeneration(gateway.batches, ID_NAMES),
    )

    @api.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        name = auth.permit(request, "Generate")
        body = await body_of(request, ChatRequest, max_bytes=auth.max_bytes)
        await require_model(gateway, body.model, body.lora_path)
        names, generation = (CHAT_NAMES, of_messages) if body.input_ids is None else (ID_NAMES, of_ids)
        generation.require_fit(1, body.n)
        try:
            call, prompt = await called(request, name, body)
        except TltError as error:
            raise renamed(error, names) from None
        if body.stream:
            return EventResponse(call.growing(generation), running=auth.work(name))
        with auth.work(name):
            chunks = await unless_hung_up(request, generation.whole([prompt], body.n))
        content = await call.whole(chunks)
        return await answered(lambda: content, chunks=chunks)

    async def called(request: Request, name: str, body: ChatRequest) -> Any:
        body.require_consistent()
        require_short(body.texts, field="messages", context_length=gateway.info.context_length)
        session = session_of(request)
        ids = await prompting.prompt_ids(body, owner=name, session=session, given=body.input_ids)
        prompt = body.prompt(ids, session)
        if body.parses_tools:
            await tools.require(body.tools or ())
        return ChatCall(body, prompt, text, tools, prompting, owner=name, model=gateway.info.model), prompt

    @api.post("/v1/chat/completions/render")
    async def render(request: Request) -> Response:
        name = auth.permit(request, "Generate")
        body = await body_of(request, ChatRequest, max_bytes=auth.max_bytes)
        await require_model(gateway, body.model, body.lora_path)
        require_short(body.texts, field="messages", context_length=gateway.info.context_length)
        ids = await prompting.prompt_ids(body, owner=name, session=session_of(request), given=body.input_ids)
        found = {
            "request_id": body.request_id or f"chatcmpl-{new_request_id()}",
            "model": body.model or gateway.info.model,
            "token_ids": ids,
            "text": await text.shown(ids, skip_special_tokens=False),
        }
        return await answered(lambda: found, tokens=len(ids))

    @api.post("/finish_session")
    async def finish(request: Request) -> dict[str, JsonValue]:
        name = auth.permit(request, "Generate", query={"session_id"})
        await no_body(request, max_bytes=auth.max_bytes)
        session = request.query_params.get("session_id", "")
        require_name("session_id", session, least=1, most=MAX_SESSION_ID)
        turns = prompting.finish(name, session)
        known = gateway.finish_session(session, owner=name) or turns > 0
        return {"status": "ok", "session_id": session, "known": known}

    return api
