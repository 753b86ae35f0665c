"""Tool calls in text that grows, without SGLang's parsers."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.errors import InvalidRequestError
from tlt_gateway.http.text.parsing import markers_of
from tlt_gateway.http.text.response_text import begun
from tlt_gateway.http.text.tools import ToolCall, ToolParser, ToolText

CALL = ToolCall(name="f", arguments="{}")


class Parser(ToolParser):
    """Calls begin with <c> and end with </c>; text before one is stripped."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    async def parsed(self, text: str, tools: Any) -> tuple[str, list[ToolCall]]:
        self.read += len(text)
        before, begins, call = text.partition("<c>")
        return (before.strip() + call.partition("</c>")[2], [CALL]) if begins else (text, [])


async def said(text: str, size: int, markers: Sequence[str] | None = ("<c>",)) -> tuple[list[str], list[ToolCall]]:
    whole = ToolText(Parser(), [], markers)
    steps = [whole.step(text[at : at + size]) for at in range(0, len(text), size)]
    rest, calls = await whole.rest()
    return [*steps, rest], calls


@given(text=st.text(alphabet="ab <c/>\n", max_size=30), size=st.integers(1, 7))
async def test_a_stream_shows_the_text_of_the_whole_and_nothing_of_a_call(text: str, size: int) -> None:
    content, expected = await Parser().parsed(text, [])
    for markers in (("<c>",), None):
        pieces, calls = await said(text, size, markers)
        shown = "".join(pieces)
        assert calls == expected
        assert shown.split() == content.split() if expected else shown == content


async def test_text_is_shown_as_soon_as_it_begins_no_call() -> None:
    assert await said("ab<d><c>x</c>y", 2) == (["ab", "<d", ">", "", "", "", "", "y"], [CALL])
    assert await said("ab<d", 1, None) == (["", "", "", "", "ab<d"], [])


async def test_a_response_is_parsed_once_however_long_it_is() -> None:
    parser = Parser()
    whole = ToolText(parser, [], ["<c>"])
    text = "<c>" * 20_000
    for piece in text:
        whole.step(piece)
    await whole.rest()
    assert parser.read == len(text)


async def test_without_a_parser_tools_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match=r"http\.tool_parser") as raised:
        await ToolParser().require([{}])
    assert raised.value.field == "tools"


class Detector:
    def __init__(self, has_tool_call: Any) -> None:
        self.has_tool_call = has_tool_call


def test_what_a_parser_looks_for_is_found_unless_it_does_more() -> None:
    import re

    assert markers_of(Detector(lambda text: "<a>" in text or "<b>" in text)) == ["<a>", "<b>"]
    for other in (
        lambda text: "<a>" in text or text.startswith("{"),
        lambda text: re.search("x", text) is not None,
        lambda text: "" in text,
        lambda text: text["x"],
    ):
        assert markers_of(Detector(other)) is None


@given(st.text(alphabet="ab", max_size=12), st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=3))
def test_what_may_begin_a_string_is_the_longest_end_that_does(text: str, strings: list[str]) -> None:
    ends = [size for one in strings for size in range(1, min(len(one), len(text) + 1)) if text.endswith(one[:size])]
    assert begun(text, strings) == max(ends, default=0)
