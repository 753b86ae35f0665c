"""Tool calls in the text of responses, found by SGLang's parsers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tlt_common.errors import ConfigError, InvalidRequestError

Tools = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that a response asks for."""

    name: str
    arguments: str
    """JSON, as the model wrote it."""


class ToolText:
    """The text of one response, which may contain tool calls."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._parser = make()
        self._text: list[str] = []

    def step(self, added: str) -> str:
        """Add text; return what of it belongs to no tool call. Text that may begin one is kept back."""
        self._text.append(added)
        return str(self._parser.parse_stream_chunk(added)[0] or "")

    def rest(self) -> str:
        """Return what was kept back and belongs to no tool call, at the end of the response."""
        return str(self._parser.parse_stream_end()[0] or "")

    def calls(self) -> list[ToolCall]:
        """Return the calls in what was added."""
        return self.whole("".join(self._text))[1]

    def whole(self, text: str) -> tuple[str, list[ToolCall]]:
        """Return a complete text without its tool calls, and the calls."""
        content, calls = self._make().parse_non_stream(text)
        return str(content or ""), [ToolCall(name=str(one.name), arguments=one.parameters) for one in calls]


class ToolParser:
    """
    Args:
        name: One of SGLang's parsers; None finds no calls.

    Raises:
        ConfigError: SGLang is not installed, or has no such parser.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._parsers: Any = None
        self._tool: Any = None
        if name is None:
            return
        try:
            # Takes seconds, and imports torch.
            from sglang.srt.entrypoints.openai.protocol import Tool
            from sglang.srt.function_call.function_call_parser import FunctionCallParser
        except ImportError as error:
            raise ConfigError(
                f"http.tool_parser: SGLang's parsers cannot be imported ({error}); install tlt-suite[tools]",
                field="http.tool_parser",
            ) from error
        self._parsers, self._tool = FunctionCallParser, Tool
        accepted = sorted(FunctionCallParser.ToolCallParserEnum)
        if name not in accepted:
            raise ConfigError(
                f"http.tool_parser is {name!r}; accepted: {', '.join(accepted)}", field="http.tool_parser"
            )

    def text(self, tools: Tools) -> ToolText:
        """
        Return the parser of one response.

        Raises:
            InvalidRequestError: The gateway has no parser, or a tool is malformed.
        """
        if self._name is None:
            raise InvalidRequestError(
                "tools: the gateway has no parser of tool calls (http.tool_parser); accepted: tool_choice none, which "
                "shows the tools to the model and leaves its calls in the text",
                field="tools",
            )
        try:
            known = [self._tool.model_validate(tool) for tool in tools]
        except ValueError as error:
            raise InvalidRequestError(f"tools: {error}", field="tools") from error
        return ToolText(lambda: self._parsers(known, self._name))
