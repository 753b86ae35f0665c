"""Tool calls in the text of responses. `parsing` finds them in a separate process."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pydantic_core

from tlt_common.errors import ConfigError, InvalidRequestError
from tlt_common.telemetry.log import get_logger
from tlt_gateway.http.resident.child import RefusedError
from tlt_gateway.http.resident.process import OverrunError, Resident
from tlt_gateway.http.text.response_text import begun

Tools = Sequence[dict[str, Any]]

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call found in a response."""

    name: str
    arguments: str
    """Arguments as JSON, exactly as the model wrote them."""


class ToolParser:
    """
    Args:
        name: Name of one of SGLang's parsers. None disables parsing.

    Raises:
        ConfigError: SGLang is not installed, or has no such parser.
    """

    def __init__(self, name: str | None = None) -> None:
        self._resident = None if name is None else Resident("tlt_gateway.http.text.parsing", name)
        self._markers: list[str] | None = None
        if self._resident is None:
            return
        try:
            self._markers = json.loads(self._resident.start())
        except RefusedError as error:
            self.close()
            raise ConfigError(f"http.tool_parser: {error}", field="http.tool_parser") from error

    def close(self) -> None:
        """End the process. Idempotent."""
        if self._resident is not None:
            self._resident.close()

    async def require(self, tools: Tools) -> None:
        """
        Check the tools before a response is generated.

        Raises:
            InvalidRequestError: The gateway has no parser, or a tool is malformed.
        """
        if self._resident is None:
            raise InvalidRequestError(
                "tools: the gateway has no parser of tool calls (http.tool_parser); accepted: tool_choice none, which "
                "shows the tools to the model and leaves its calls in the text",
                field="tools",
            )
        try:
            await self._resident.ask(lambda: pydantic_core.to_json({"tools": tools}))
        except (RefusedError, OverrunError, ValueError) as error:
            raise InvalidRequestError(f"tools: {error}", field="tools") from error

    def text(self, tools: Tools) -> "ToolText":
        """Return the text of one response."""
        return ToolText(self, tools, self._markers)

    async def parsed(self, text: str, tools: Tools) -> tuple[str, list[ToolCall]]:
        """
        Return a text without its tool calls, and the calls. Text that cannot be parsed in time is returned whole, as in
        SGLang.
        """
        if self._resident is None:
            return text, []
        try:
            answer = await self._resident.ask(lambda: pydantic_core.to_json({"tools": tools, "text": text}))
        except (RefusedError, OverrunError) as error:
            log.warning("tool_calls_not_parsed", reason=str(error), characters=len(text))
            return text, []
        content, calls = json.loads(answer)
        return content, [ToolCall(name=name, arguments=arguments) for name, arguments in calls]


class ToolText:
    """
    The text of one response, which may contain tool calls.

    Args:
        parser: Finds tool calls.
        tools: The tools that may be called.
        markers: Strings of which a text with calls contains at least one. None if unknown, which holds back all text.
    """

    def __init__(self, parser: ToolParser, tools: Tools, markers: Sequence[str] | None) -> None:
        self._parser = parser
        self._tools = tools
        self._markers = markers
        self._text: list[str] = []
        self._held = ""
        self._shown = 0
        """Characters that were returned."""
        self._calls = False

    def step(self, added: str) -> str:
        """Add text and return the part outside tool calls. Text after the first call is held until the end."""
        self._text.append(added)
        if self._calls or self._markers is None:
            return ""
        text = self._held + added
        places = [at for marker in self._markers if (at := text.find(marker)) >= 0]
        self._calls = bool(places)
        end = min(places) if places else len(text) - begun(text, self._markers)
        self._held, self._shown = text[end:], self._shown + end
        return text[:end]

    async def rest(self) -> tuple[str, list[ToolCall]]:
        """Return the remaining text outside tool calls, and the calls, at the end of the response."""
        whole = "".join(self._text)
        content, calls = await self.whole(whole)
        shown = whole[: self._shown]
        # Parsers strip what is before a call.
        for begin in (shown, shown.rstrip()):
            if content.startswith(begin):
                return content[len(begin) :], calls
        return "", calls

    async def whole(self, text: str) -> tuple[str, list[ToolCall]]:
        """Return a complete text without its tool calls, and the calls."""
        return await self._parser.parsed(text, self._tools)
