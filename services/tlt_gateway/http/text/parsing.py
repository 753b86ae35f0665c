"""
Finds tool calls in responses with SGLang's parsers, in a process: `python -m tlt_gateway.http.text.parsing NAME`.

Several parsers take time quadratic in the length of the text. A request is a JSON object with `tools`, and with `text`
unless the tools are only checked; an answer is a list: the text without its calls, and the name and arguments of each.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from tlt_gateway.http.resident.child import RefusedError, serve


class _Probe(str):  # noqa: SLOT000 - one is made
    """A string that records which substrings are searched for in it."""

    looked_for: list[str]
    others: list[str]

    def __new__(cls) -> Self:
        self = super().__new__(cls, "")
        self.looked_for, self.others = [], []
        return self

    def __contains__(self, part: object) -> bool:
        self.looked_for.append(str(part))
        return False

    def __getattribute__(self, name: str) -> Any:
        if name not in {"looked_for", "others"}:
            self.others.append(name)
        return super().__getattribute__(name)


def markers_of(detector: Any) -> list[str] | None:
    """Return strings of which a text with calls contains at least one, or None if the parser searches for none."""
    probe = _Probe()
    try:
        detector.has_tool_call(probe)
    except Exception:  # noqa: BLE001 - it takes only a real text
        return None
    return probe.looked_for if probe.looked_for and all(probe.looked_for) and not probe.others else None


def prepared(name: str) -> tuple[Callable[[bytes], bytes], bytes]:
    """
    Return a parser's answer function, and its markers as JSON.

    Raises:
        RefusedError: SGLang is not installed, or has no such parser.
    """
    try:
        # Takes seconds, and imports torch.
        from sglang.srt.entrypoints.openai.protocol import Tool
        from sglang.srt.function_call.function_call_parser import FunctionCallParser
    except ImportError as error:
        raise RefusedError(f"SGLang's parsers cannot be imported ({error}); install tlt-suite[tools]") from error
    accepted = sorted(FunctionCallParser.ToolCallParserEnum)
    if name not in accepted:
        raise RefusedError(f"it is {name!r}; accepted: {', '.join(accepted)}")
    make = partial(FunctionCallParser, tool_call_parser=name)
    markers = markers_of(make(tools=[]).detector)
    return partial(_answer, Tool.model_validate, make), json.dumps(markers).encode()


def _answer(checked: Callable[[Any], Any], make: Callable[..., Any], request: bytes) -> bytes:
    asked = json.loads(request)
    tools = [checked(tool) for tool in asked["tools"]]
    if asked.get("text") is None:
        return b"[]"
    content, calls = make(tools=tools).parse_non_stream(asked["text"])
    return json.dumps([str(content or ""), [[str(call.name), call.parameters] for call in calls]]).encode()


if __name__ == "__main__":
    serve(lambda: prepared(sys.argv[1]))
