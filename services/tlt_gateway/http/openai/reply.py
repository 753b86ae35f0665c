"""One choice of a chat completion: text and tool calls, complete or streamed."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from pydantic import JsonValue

from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_gateway.http.openai.chat_requests import ChatRequest
from tlt_gateway.http.openai.conversation import Called, CalledTool, Message
from tlt_gateway.http.openai.usage import finish_of
from tlt_gateway.http.text.response_text import ResponseText
from tlt_gateway.http.text.text import Text
from tlt_gateway.http.text.tools import ToolCall, ToolText


class Reply:
    """
    Args:
        body: The call.
        text: Decodes tokens.
        tools: Finds tool calls; None disables the search.
    """

    def __init__(self, body: ChatRequest, text: Text, tools: ToolText | None) -> None:
        self._body = body
        self._text = text
        self._tools = tools
        # Parsers know calls by their tags, which are special tokens of some models.
        decoder = text.decoder(skip_special_tokens=body.skip_special_tokens and tools is None)
        self._text_so_far = ResponseText(decoder, body.stop_strings, keeps_stop=body.keeps_stop)
        self._content: list[str] = []
        self._calls: list[CalledTool] = []
        self.token_ids: list[int] = []

    async def whole(self, chunk: TokenChunk) -> dict[str, JsonValue]:
        """Return the choice of a complete response."""
        said = "".join(self._said(chunk))
        if self._tools is not None:
            said, calls = await self._tools.whole(said)
            self._calls = _identified(calls)
        self._content = [said]
        message: dict[str, JsonValue] = {"role": "assistant", "content": said or (None if self._calls else "")}
        if self._calls:
            message["tool_calls"] = [_shown(call) for call in self._calls]
        return {"message": message, **self._about(chunk)}

    async def grown(self, chunk: TokenChunk) -> dict[str, JsonValue]:
        """Return the choice of a chunk's event: text is streamed at once, tool calls when they are complete."""
        delta: dict[str, JsonValue] = {} if self.token_ids else {"role": "assistant"}
        added = "".join(self._said(chunk))
        if self._tools is not None:
            added = self._tools.step(added)
            if chunk.finish_reason is not None:
                rest, calls = await self._tools.rest()
                added, self._calls = added + rest, _identified(calls)
        self._content.append(added)
        if self._calls:
            delta["tool_calls"] = [{"index": place, **_shown(call)} for place, call in enumerate(self._calls)]
        return {"delta": delta | {"content": added}, **self._about(chunk)}

    def message(self) -> Message:
        """Return the message as a client sends it back in the next turn."""
        return Message(role="assistant", content="".join(self._content), tool_calls=self._calls or None)

    def _said(self, chunk: TokenChunk) -> list[str]:
        """Return the text that a chunk adds, in pieces."""
        self.token_ids += chunk.token_ids
        return self._text_so_far.added(chunk)

    def _about(self, chunk: TokenChunk) -> dict[str, JsonValue]:
        stopped = chunk.finish_reason is FinishReason.STOP
        found: dict[str, Any] = {
            "finish_reason": "tool_calls" if stopped and self._calls else finish_of(chunk.finish_reason),
            "stop_reason": self._text_so_far.ended_by,
            "logprobs": {"content": self._scored(chunk)} if self._body.logprobs else None,
        }
        if self._body.return_token_ids:
            found["token_ids"] = list(chunk.token_ids)
        return found

    def _scored(self, chunk: TokenChunk) -> list[dict[str, JsonValue]]:
        as_ids = bool(self._body.return_tokens_as_token_ids)
        names = [self._text.name(token, as_id=as_ids) for token in chunk.token_ids]
        return [
            {"token": name, "logprob": logprob, "bytes": list(name.encode()), "top_logprobs": []}
            for name, logprob in zip(names, chunk.logprobs, strict=True)
        ]


def _identified(calls: Sequence[ToolCall]) -> list[CalledTool]:
    return [
        CalledTool(id=f"call_{uuid4().hex[:24]}", function=Called(name=call.name, arguments=call.arguments))
        for call in calls
    ]


def _shown(call: CalledTool) -> dict[str, JsonValue]:
    function: dict[str, JsonValue] = {"name": call.function.name, "arguments": str(call.function.arguments)}
    return {"id": call.id, "type": "function", "function": function}
