"""Tool calls in chat completions, with SGLang's parsers."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.fakes.chat_model import write_chat_model
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import serving_in
from tests.integration.gateway.http.test_chat import ASK, Chat
from tlt_common.errors import ConfigError
from tlt_gateway.http.text.tools import ToolParser

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
CALL = 'I look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chat(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chat]:
    """A gateway with a parser, whose process takes long to start."""
    directory = tmp_path_factory.mktemp("gateway")
    tokenizer = write_chat_model(directory / "model")
    settings = {"listen": "127.0.0.1:0", "tokenizer": directory / "model", "tool_parser": "qwen25"}
    async with (
        FakeWorker("w0", vocab_size=300, context_length=2**15) as worker,
        serving_in(directory, worker, within_s=200, http=settings) as http,
    ):
        yield Chat(http, worker, tokenizer)


async def test_a_tool_is_called_and_its_result_follows_the_sampled_tokens(chat: Chat) -> None:
    said, _ = chat.script(CALL, "sunny")
    first = await chat.ask(ASK, tools=TOOLS)
    [choice] = first.choices
    [call] = choice.message.tool_calls
    assert (choice.finish_reason, choice.message.content.strip(), choice.token_ids) == ("tool_calls", "I look.", said)
    assert (call.type, call.function.name) == ("function", "get_weather")
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    result = {"role": "tool", "tool_call_id": call.id, "content": "21 degrees"}
    second = await chat.ask([*ASK, choice.message.model_dump(exclude_none=True), result], tools=TOOLS)
    after = "\n<|im_start|>tool\n21 degrees<|im_end|>\n<|im_start|>assistant\n"
    assert second.prompt_token_ids == [*first.prompt_token_ids, *said, *chat.ids(after)]
    assert (second.choices[0].finish_reason, second.choices[0].message.content) == ("stop", "sunny")


async def test_a_stream_ends_with_the_calls(chat: Chat) -> None:
    said, _ = chat.script(CALL, "sunny")
    events = await chat.ask(ASK, tools=TOOLS, stream=True)
    content = "".join(event.choices[0].delta.content or "" for event in events)
    [call] = events[-1].choices[0].delta.tool_calls
    assert (content.strip(), events[-1].choices[0].finish_reason) == ("I look.", "tool_calls")
    assert (call.index, call.function.name, json.loads(call.function.arguments)) == (
        0,
        "get_weather",
        {"city": "Paris"},
    )
    message = {"role": "assistant", "content": content, "tool_calls": [call.model_dump()]}
    second = await chat.ask([*ASK, message, {"role": "tool", "tool_call_id": call.id, "content": "21"}], tools=TOOLS)
    prompt = events[0].prompt_token_ids
    assert second.prompt_token_ids[: len(prompt) + len(said)] == [*prompt, *said]


async def test_text_without_a_call_is_content(chat: Chat) -> None:
    chat.script("1 < 2", "1 < 2")
    whole = await chat.ask(ASK, tools=TOOLS)
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == ("1 < 2", "stop")
    events = await chat.ask(ASK, tools=TOOLS, stream=True)
    assert "".join(event.choices[0].delta.content or "" for event in events) == "1 < 2"


async def test_a_malformed_tool_is_refused(chat: Chat) -> None:
    tools = [{"type": "function", "function": {"name": "f", "description": 5}}]
    error = await chat.http.refused("/v1/chat/completions", {"messages": ASK, "tools": tools})
    assert error["param"] == "tools"


async def test_a_degenerate_response_costs_nothing_but_its_text(chat: Chat) -> None:
    degenerate = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "' * 500
    for streams in (False, True):
        [said, _] = chat.script(degenerate, "sunny")
        answer = await chat.ask(ASK, tools=TOOLS, stream=streams, max_tokens=30_000)
        if streams:
            assert [token for event in answer for token in event.choices[0].token_ids] == said
        else:
            assert (answer.choices[0].message.tool_calls, answer.choices[0].token_ids) == (None, said)
    whole = await chat.ask(ASK, tools=TOOLS)
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == ("sunny", "stop")


async def test_an_unknown_parser_is_refused_by_its_key() -> None:
    with pytest.raises(ConfigError, match=r"http\.tool_parser: it is 'nobody'.*hermes"):
        ToolParser("nobody")
