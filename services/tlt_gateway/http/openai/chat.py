"""Chat completions: messages in, a message out, with the tokens of both."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from pydantic import JsonValue

from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import FinishReason, ResponseStats, TokenChunk
from tlt_gateway.http.answers import meta_info
from tlt_gateway.http.generation import HttpGeneration
from tlt_gateway.http.openai.answers import prompt_logprobs, request_of
from tlt_gateway.http.openai.chat_requests import ChatRequest
from tlt_gateway.http.openai.prompting import Prompting
from tlt_gateway.http.openai.reply import Reply
from tlt_gateway.http.openai.turns import Turn
from tlt_gateway.http.openai.usage import usage
from tlt_gateway.http.text.text import Text
from tlt_gateway.http.text.tools import ToolParser


class ChatCall:
    """
    One call.

    Args:
        body: The call.
        prompt: Its messages as tokens.
        owner: Name of the caller; each caller's turns are remembered separately.
        model: Name of the model, for the answer.
    """

    def __init__(
        self,
        body: ChatRequest,
        prompt: Prompt,
        text: Text,
        tools: ToolParser,
        prompting: Prompting,
        *,
        owner: str,
        model: str,
    ) -> None:
        self._body = body
        self._prompt = prompt
        self._prompting = prompting
        self._owner = owner
        self._model = body.model or model
        self._began_s = time.monotonic()
        self._replies = [
            Reply(body, text, tools.text(body.tools or ()) if body.parses_tools else None) for _ in range(body.n)
        ]
        self._stats: list[ResponseStats | None] = [None] * body.n

    async def whole(self, chunks: Sequence[TokenChunk]) -> dict[str, JsonValue]:
        """Return the answer with complete responses."""
        choices: list[JsonValue] = []
        for place, (reply, chunk) in enumerate(zip(self._replies, chunks, strict=True)):
            choices.append({"index": place, **await reply.whole(chunk), **self._returned(chunk)})
            self._finished(place, chunk)
            await asyncio.sleep(0)  # there may be many, and long ones
        answer = self._answer("chat.completion", request_of(chunks[0]), choices) | {"usage": self._usage()}
        if self._body.prompt_logprobs is not None:
            answer["prompt_logprobs"] = prompt_logprobs(self._prompt.token_ids, chunks[0])
        return answer

    def _returned(self, chunk: TokenChunk) -> dict[str, JsonValue]:
        """Return the fields that SGLang adds to a choice on request."""
        found: dict[str, JsonValue] = {}
        if self._body.return_prompt_token_ids:
            found["prompt_token_ids"] = list(self._prompt.token_ids)
        if self._body.return_meta_info:
            limit = self._prompt.sampling.max_new_tokens
            meta = meta_info(chunk, self._prompt, rid=request_of(chunk), limit=limit, began_s=self._began_s)
            if self._body.logprobs:
                meta["input_token_logprobs"] = []
                meta["output_token_logprobs"] = [
                    [logprob, token, None] for logprob, token in zip(chunk.logprobs, chunk.token_ids, strict=True)
                ]
                meta["output_token_logprobs_length"] = len(chunk.token_ids)
            found["meta_info"] = meta
        return found

    async def growing(self, generation: HttpGeneration) -> AsyncGenerator[dict[str, JsonValue], None]:
        """Generate the responses and yield the events of a stream."""
        first, request = True, ""
        async with aclosing(generation.chunks([self._prompt], self._body.n)) as chunks:
            async for place, chunk in chunks:
                request = request or request_of(chunk)
                choice: JsonValue = {"index": place, **await self._replies[place].grown(chunk)}
                if chunk.finish_reason is not None:
                    self._finished(place, chunk)
                yield self._answer("chat.completion.chunk", request, [choice], prompt=first)
                first = False
        if self._body.stream_options is not None and self._body.stream_options.include_usage:
            yield self._answer("chat.completion.chunk", request, [], prompt=False) | {"usage": self._usage()}

    def _finished(self, place: int, chunk: TokenChunk) -> None:
        reply, self._stats[place] = self._replies[place], chunk.stats
        turn = Turn(
            token_ids=[*self._prompt.token_ids, *reply.token_ids],
            ended=chunk.finish_reason is FinishReason.STOP and not chunk.matched_stop,
        )
        self._prompting.remember(self._body, reply.message(), turn, owner=self._owner, session=self._prompt.session_id)

    def _answer(
        self, kind: str, request: str, choices: list[JsonValue], *, prompt: bool = True
    ) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {
            "id": f"chatcmpl-{request}",
            "object": kind,
            "created": int(time.time()),
            "model": self._model,
            "choices": choices,
        }
        if self._body.return_token_ids and prompt:
            found["prompt_token_ids"] = list(self._prompt.token_ids)
        return found

    def _usage(self) -> dict[str, JsonValue]:
        completion = sum(len(reply.token_ids) for reply in self._replies)
        return usage(len(self._prompt.token_ids), completion, self._stats, samples=self._body.n)
