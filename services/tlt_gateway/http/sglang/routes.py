"""SGLang's endpoints that generate and abort, and the suite's own for announced prompts."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from tlt_common.domain.batch import Batch
from tlt_common.domain.bounds import MAX_INTERNAL_ID, require_name
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.errors import TltError
from tlt_common.wire import rollout as wire
from tlt_gateway.gateway import Gateway
from tlt_gateway.http.answers import answered
from tlt_gateway.http.auth import HttpAuth
from tlt_gateway.http.bodies.body import body_of, renamed, strings_of
from tlt_gateway.http.events import EventResponse
from tlt_gateway.http.generation import HttpGeneration, unless_hung_up
from tlt_gateway.http.models import require_model
from tlt_gateway.http.session import session_of
from tlt_gateway.http.sglang.answers import Answers
from tlt_gateway.http.sglang.control import Abort
from tlt_gateway.http.sglang.requests import NAMES, TEXT_NAMES, GenerateBody
from tlt_gateway.http.text.text import Text, require_short


def router(gateway: Gateway, auth: HttpAuth, text: Text) -> APIRouter:
    """Return the routes."""
    api = APIRouter()
    of_ids, of_text = HttpGeneration(gateway.batches, NAMES), HttpGeneration(gateway.batches, TEXT_NAMES)

    async def received(request: Request) -> tuple[GenerateBody, HttpGeneration, Mapping[str, str]]:
        """Read a request's body and check everything that can be checked before its text is tokenized."""
        body = await body_of(request, GenerateBody, max_bytes=auth.max_bytes)
        await require_model(gateway, None, body.lora_path)
        generation, names = (of_ids, NAMES) if body.text is None else (of_text, TEXT_NAMES)
        generation.require_fit(body.count, body.sampling(0).n)
        require_short(strings_of(body.text), field="text", context_length=gateway.info.context_length)
        return body, generation, names

    @api.post("/generate")
    async def generate(request: Request) -> Response:
        name = auth.permit(request, "Generate")
        body, generation, names = await received(request)
        try:
            prompts = await body.prompts(text, session_of(request))
        except TltError as error:
            raise renamed(error, names) from None
        answers = Answers(body, text, prompts)
        if body.stream:
            return EventResponse(growing(generation, body, prompts, answers), running=auth.work(name))
        with auth.work(name):
            chunks = await unless_hung_up(request, generation.whole(prompts, body.sampling(0).n))
        return await answered(lambda: answers.whole(chunks), chunks=chunks)

    async def growing(
        generation: HttpGeneration, body: GenerateBody, prompts: Sequence[Prompt], answers: Answers
    ) -> AsyncGenerator[dict[str, Any], None]:
        async with aclosing(generation.chunks(prompts, body.sampling(0).n)) as chunks:
            async for place, chunk in chunks:
                yield answers.grown(place, chunk) | ({"index": place} if body.is_list else {})

    @api.post("/announce")
    async def announce(request: Request) -> Response:
        name = auth.permit(request, "Announce")
        body, _, names = await received(request)
        try:
            prompts = await body.prompts(text)
            with auth.work(name):
                batch = Batch(prompts=prompts, samples_per_prompt=body.sampling(0).n)
                workers = await gateway.announcements.announce(batch)
        except TltError as error:
            raise renamed(error, names, many=body.is_list) from None
        return JSONResponse({"workers": workers})

    @api.post("/abort_request")
    async def abort(request: Request) -> Response:
        auth.identify(request, "Abort")
        body = await body_of(request, Abort, max_bytes=auth.max_bytes)
        auth.permit(request, "Abort", wire.pb.AbortRequest(all=body.abort_all))
        require_name("rid", body.rid or "", most=MAX_INTERNAL_ID)
        if body.abort_all or body.rid:  # as in SGLang, an empty name is that of no request
            await gateway.abort(
                [] if body.abort_all else [RequestId(body.rid or "")],
                everything=body.abort_all,
                from_peer=False,
                authorization=request.headers.get("authorization"),
            )
        return Response()

    return api
