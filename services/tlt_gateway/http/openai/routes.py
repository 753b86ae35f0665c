"""OpenAI's and vLLM's endpoints on the gateway."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import JsonValue

from tlt_common.domain.prompt import Prompt
from tlt_common.errors import InvalidRequestError, TltError
from tlt_gateway.gateway import Gateway
from tlt_gateway.http.answers import answered
from tlt_gateway.http.auth import HttpAuth
from tlt_gateway.http.bodies.body import body_of, no_body, renamed
from tlt_gateway.http.events import EventResponse
from tlt_gateway.http.generation import HttpGeneration, unless_hung_up
from tlt_gateway.http.models import require_model
from tlt_gateway.http.openai import answers
from tlt_gateway.http.openai.requests import COMPLETION_NAMES, GENERATE_NAMES, CompletionRequest, TokenGenerate
from tlt_gateway.http.session import session_of
from tlt_gateway.http.text.text import Text, require_short


def router(gateway: Gateway, auth: HttpAuth, text: Text) -> APIRouter:
    """Return the routes."""
    api = APIRouter()
    completions = HttpGeneration(gateway.batches, COMPLETION_NAMES)
    generation = HttpGeneration(gateway.batches, GENERATE_NAMES)
    began_s = int(time.time())

    @api.post("/v1/completions")
    async def complete(request: Request) -> Response:
        name = auth.permit(request, "Generate")
        body = await body_of(request, CompletionRequest, max_bytes=auth.max_bytes)
        await require_model(gateway, body.model, body.lora_path)
        _require_sampled(body.logprobs, "logprobs")
        body.require_prompt_logprobs(streams=body.stream)
        completions.require_fit(body.count, body.n)
        require_short(body.texts, field="prompt", context_length=gateway.info.context_length)
        try:
            prompts = await body.prompts(text, session_of(request))
        except TltError as error:
            raise renamed(error, COMPLETION_NAMES) from None
        if body.stream:
            return EventResponse(growing(body, prompts), running=auth.work(name))
        with auth.work(name):
            chunks = await unless_hung_up(request, completions.whole(prompts, body.n))
        return await answered(
            lambda: answers.completion(body, text, gateway.info.model, prompts, chunks), chunks=chunks
        )

    async def growing(body: CompletionRequest, prompts: Sequence[Prompt]) -> AsyncGenerator[dict[str, JsonValue], None]:
        count, model = len(prompts) * body.n, gateway.info.model
        choices = [answers.Choice(body, text, prompts[place // body.n], place) for place in range(count)]
        async with aclosing(completions.chunks(prompts, body.n)) as chunks:
            async for place, chunk in chunks:
                yield answers.part(body, model, chunk, choices[place])
        if body.stream_options is not None and body.stream_options.include_usage:
            yield answers.usage_part(body, model, prompts, choices)

    @api.post("/inference/v1/generate")
    async def generate(request: Request) -> JSONResponse:
        name = auth.permit(request, "Generate")
        body = await body_of(request, TokenGenerate, max_bytes=auth.max_bytes)
        await require_model(gateway, body.model)
        _require_sampled(body.sampling_params.logprobs, "sampling_params.logprobs")
        body.sampling_params.require_prompt_logprobs()
        generation.require_fit(1, body.sampling_params.n)
        try:
            prompt = body.prompt(session_of(request))
        except TltError as error:
            raise renamed(error, GENERATE_NAMES) from None
        with auth.work(name):
            chunks = await unless_hung_up(request, generation.whole([prompt], body.sampling_params.n))
        return await answered(lambda: answers.tokens(body, chunks), chunks=chunks)

    @api.get("/v1/models")
    async def models(request: Request) -> dict[str, JsonValue]:
        auth.permit(request, "GetServerInfo")
        await no_body(request, max_bytes=auth.max_bytes)
        info = gateway.info
        model: dict[str, JsonValue] = {
            "id": info.model,
            "object": "model",
            "created": began_s,
            "owned_by": "tlt",
            "root": info.model,
            "parent": None,
            "max_model_len": info.context_length,
        }
        adapter = gateway.adapters.name
        adapters: list[JsonValue] = [{**model, "id": adapter, "root": adapter, "parent": info.model}] if adapter else []
        return {"object": "list", "data": [model, *adapters] if info.model else []}

    return api


def _require_sampled(logprobs: int | None, field: str) -> None:
    """
    Raises:
        InvalidRequestError: Log-probabilities of other tokens than the sampled ones are asked for.
    """
    if logprobs not in {None, 0, 1}:
        raise InvalidRequestError(
            f"{field} is {logprobs}; accepted: 0 or 1, which return those of the sampled tokens, or leave it out",
            field=field,
        )
