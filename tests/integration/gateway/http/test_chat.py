"""Chat completions on a gateway, asked for by OpenAI's client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from prometheus_client import REGISTRY
from tokenizers import Tokenizer

from tests.fakes.chat_model import END, SPECIAL, Script, write_chat_model
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import Http, Serve
from tlt_gateway.http.openai.turns import TURN_BYTES

ASK = [{"role": "user", "content": "the weather in Paris"}]
SAID = [*ASK, {"role": "assistant", "content": "sunny"}]
ASKED = "<|im_start|>user\nthe weather in Paris<|im_end|>\n<|im_start|>assistant\n"


class Chat:
    """A gateway with a tokenizer, in front of a scripted worker."""

    def __init__(self, http: Http, worker: FakeWorker, tokenizer: Tokenizer) -> None:
        self.http, self.worker, self.tokenizer = http, worker, tokenizer
        self.end = SPECIAL.index(END)

    def script(self, *responses: str | list[int]) -> list[list[int]]:
        """Let the worker say texts, in single bytes unlike the tokenizer, and return them as tokens with their end."""
        said = [[*self.bytes(one), self.end] if isinstance(one, str) else one for one in responses]
        self.worker.next_token = Script(*said)
        return said

    def bytes(self, text: str) -> list[int]:
        return [token for character in text for token in self.ids(character)]

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def text(self, ids: Any) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))

    @asynccontextmanager
    async def client(self, session: str = "") -> AsyncIterator[openai.AsyncOpenAI]:
        headers = {"X-Session-ID": session} if session else {}
        base = f"http://{self.http.address}/v1"
        async with openai.AsyncOpenAI(base_url=base, api_key="none", default_headers=headers, max_retries=0) as client:
            yield client

    async def ask(self, messages: Any, *, session: str = "", **options: Any) -> Any:
        body = {"stop_token_ids": [self.end], "return_token_ids": True} | options.pop("extra_body", {})
        async with self.client(session) as client:
            answer: Any = await client.chat.completions.create(
                model="fake", messages=messages, extra_body=body, **{"max_tokens": 200} | options
            )
            return [event async for event in answer] if options.get("stream") else answer


@pytest.fixture
async def chat(serve: Serve, tmp_path: Path) -> AsyncIterator[Chat]:
    tokenizer = write_chat_model(tmp_path / "model")
    settings = {"listen": "127.0.0.1:0", "tokenizer": tmp_path / "model"}
    async with FakeWorker("w0", vocab_size=300, context_length=2048) as worker, serve(worker, http=settings) as http:
        yield Chat(http, worker, tokenizer)


async def test_an_answer_has_the_message_its_tokens_and_their_logprobs(chat: Chat) -> None:
    [said] = chat.script("sunny")
    answer = await chat.ask(ASK, logprobs=True)
    [choice] = answer.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "sunny", "stop")
    assert choice.message.tool_calls is None
    assert answer.prompt_token_ids == chat.ids(ASKED) == list(chat.worker.prompts[0].token_ids)
    assert choice.token_ids == said
    assert [one.token for one in choice.logprobs.content] == [*"sunny", END]
    assert [one.logprob for one in choice.logprobs.content] == [-token / 128 for token in said]
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (len(chat.ids(ASKED)), len(said))
    assert answer.usage.prompt_tokens_details.cached_tokens == 0


async def test_a_chat_has_the_log_probabilities_of_its_prompt(chat: Chat) -> None:
    chat.script("sunny", "warm")
    answer = await chat.ask(ASK, extra_body={"prompt_logprobs": 0})
    first, *others = answer.prompt_logprobs
    assert first is None
    assert others == [{str(token): {"logprob": -token / 128}} for token in chat.ids(ASKED)[1:]]
    assert not hasattr(await chat.ask(ASK), "prompt_logprobs")
    for refused in ({"prompt_logprobs": 2}, {"prompt_logprobs": 1, "stream": True}):
        body = {"messages": ASK} | refused
        assert (await chat.http.refused("/v1/chat/completions", body))["param"] == "prompt_logprobs"


async def test_a_stream_adds_up_to_the_answer(chat: Chat) -> None:
    [said] = chat.script([*chat.bytes("sunny, 21 °ü"), chat.end])
    events = await chat.ask(ASK, stream=True, stream_options={"include_usage": True})
    last = events.pop()
    assert (last.choices, last.usage.completion_tokens) == ([], len(said))
    assert events[0].choices[0].delta.role == "assistant"
    assert events[0].prompt_token_ids == chat.ids(ASKED)
    assert "".join(event.choices[0].delta.content for event in events) == "sunny, 21 °ü"
    assert [token for event in events for token in event.choices[0].token_ids] == said
    assert [event.choices[0].finish_reason for event in events][-1] == "stop"
    assert len({event.id for event in events}) == 1


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("session", ["", "s"])
async def test_a_later_turn_begins_with_the_very_tokens_that_were_sampled(
    chat: Chat, streams: bool, session: str
) -> None:
    first, second = chat.script("sunny", "warm")
    answer = await chat.ask(ASK, session=session, stream=streams)
    if streams:
        content = "".join(event.choices[0].delta.content for event in answer)
        prompt = list(chat.worker.prompts[0].token_ids)
    else:
        content, prompt = answer.choices[0].message.content, answer.prompt_token_ids
    talk = [*ASK, {"role": "assistant", "content": content}, {"role": "user", "content": "and Rome"}]
    answer = await chat.ask(talk, session=session)
    after = "\n<|im_start|>user\nand Rome<|im_end|>\n<|im_start|>assistant\n"
    assert chat.ids("sunny") != first[:-1], "the tokenizer would cut it differently"
    assert answer.prompt_token_ids == [*prompt, *first, *chat.ids(after)]
    assert answer.usage.prompt_tokens_details.cached_tokens == len(prompt) + len(first) - 1
    talk += [{"role": "assistant", "content": "warm"}, {"role": "user", "content": "and Oslo"}]
    rendered = (await chat.http.post("/v1/chat/completions/render", {"messages": talk}, headers=_in(session))).json()
    after = "\n<|im_start|>user\nand Oslo<|im_end|>\n<|im_start|>assistant\n"
    assert rendered["token_ids"] == [*answer.prompt_token_ids, *second, *chat.ids(after)]
    assert rendered["text"] == chat.text(rendered["token_ids"])


def _in(session: str) -> dict[str, str]:
    return {"X-Session-ID": session} if session else {}


async def test_turns_that_were_forgotten_to_make_room_are_counted(serve: Serve, tmp_path: Path) -> None:
    def counted(history: str) -> float:
        return REGISTRY.get_sample_value("tlt_gateway_chat_prompts_total", {"history": history}) or 0.0

    tokenizer = write_chat_model(tmp_path / "model")
    settings = {"listen": "127.0.0.1:0", "tokenizer": tmp_path / "model", "chat_memory_bytes": TURN_BYTES + 400}
    async with FakeWorker("w0", vocab_size=300, context_length=2048) as worker, serve(worker, http=settings) as http:
        chat = Chat(http, worker, tokenizer)
        chat.script("sunny", "sunny")
        for session in ("s", "t"):
            await chat.ask(ASK, session=session)
        talk = [*SAID, {"role": "user", "content": "and Rome"}]
        for session, history in (("s", "forgotten"), ("t", "spliced"), ("u", "tokenized")):
            before = counted(history)
            body = {"messages": talk}
            assert (await http.post("/v1/chat/completions/render", body, headers=_in(session))).is_success
            assert counted(history) == before + 1, history
    assert REGISTRY.get_sample_value("tlt_gateway_chat_memory_bytes") <= TURN_BYTES + 400  # type: ignore[operator]
    assert REGISTRY.get_sample_value("tlt_gateway_forgotten_conversations_total") >= 1  # type: ignore[operator]


async def test_turns_of_other_sessions_and_changed_ones_are_tokenized(chat: Chat) -> None:
    chat.script("sunny")
    await chat.ask(ASK, session="s")
    talk = [*ASK, {"role": "assistant", "content": "sunny"}, {"role": "user", "content": "and Rome"}]
    expected = chat.ids(
        "<|im_start|>user\nthe weather in Paris<|im_end|>\n<|im_start|>assistant\nsunny<|im_end|>\n"
        "<|im_start|>user\nand Rome<|im_end|>\n<|im_start|>assistant\n"
    )
    path = "/v1/chat/completions/render"
    assert (await chat.http.post(path, {"messages": talk}, headers=_in("t"))).json()["token_ids"] == expected
    spliced = (await chat.http.post(path, {"messages": talk}, headers=_in("s"))).json()["token_ids"]
    assert (spliced != expected, chat.text(spliced)) == (True, chat.text(expected))
    assert (await chat.http.post("/finish_session?session_id=s")).json() == {
        "status": "ok", "session_id": "s", "known": True,
    }  # fmt: skip
    assert (await chat.http.post(path, {"messages": talk}, headers=_in("s"))).json()["token_ids"] == expected
    assert (await chat.http.post("/finish_session?session_id=s")).json()["known"] is False


async def test_messages_may_bring_their_tokens(chat: Chat) -> None:
    prompt, sampled = chat.bytes("earlier"), chat.bytes("sunny")  # cut by a limit: there is no end token
    said = {
        "role": "assistant", "content": "sunny", "prompt_token_ids": prompt, "generation_token_ids": sampled,
        "generation_log_probs": [-1.0] * 5,
    }  # fmt: skip
    talk = [*ASK, said, {"role": "user", "content": "and Rome"}]
    after = "<|im_end|>\n<|im_start|>user\nand Rome<|im_end|>\n<|im_start|>assistant\n"
    tokens = (await chat.http.post("/tokenize", {"messages": talk})).json()["tokens"]
    assert tokens == [*prompt, *sampled, *chat.ids(after)]
    bare = [*ASK, {"role": "assistant", "content": "sunny"}, {"role": "user", "content": "and Rome"}]
    body = {"messages": bare, "required_prefix_token_ids": [*prompt, *sampled]}
    assert (await chat.http.post("/tokenize", body)).json()["tokens"] == tokens


async def test_a_response_may_bring_a_template_and_variables(chat: Chat) -> None:
    own = await chat.http.post(
        "/v1/chat/completions/render",
        {"messages": ASK, "chat_template": "{{ messages[0].content }}{{ x }}!", "chat_template_kwargs": {"x": 5}},
    )
    assert own.json()["text"] == "the weather in Paris5!"
    body = {"messages": ASK, "chat_template_kwargs": {"opening": "<think>"}}
    assert (await chat.http.post("/v1/chat/completions/render", body)).json()["text"] == ASKED + "<think>"


async def test_text_becomes_tokens_and_back(chat: Chat) -> None:
    answer = (await chat.http.post("/tokenize", {"prompt": "Paris°", "return_token_strs": True})).json()
    assert (answer["count"], answer["tokens"], answer["max_model_len"]) == (
        len(answer["tokens"]), chat.ids("Paris°"), 2048,
    )  # fmt: skip
    assert len(answer["token_strs"]) == answer["count"]
    assert (await chat.http.post("/detokenize", {"tokens": answer["tokens"]})).json()["prompt"] == "Paris°"
    assert (await chat.http.refused("/detokenize", {"tokens": [1, 99999]}))["param"] == "tokens"


async def test_a_stop_string_needs_workers_that_know_texts(chat: Chat) -> None:
    assert (await chat.http.refused("/v1/chat/completions", {"messages": ASK, "stop": ["x"]}))["param"] == "stop"


async def test_without_a_tokenizer_there_is_no_chat(serve: Serve, worker: FakeWorker) -> None:
    async with serve(worker) as http:
        error = await http.refused("/v1/chat/completions", {"messages": ASK})
        assert "http.tokenizer" in error["message"]
        assert (await http.refused("/v1/completions", {"prompt": "text"}))["param"] == "prompt"
        assert (await http.refused("/generate", {"text": "hello"}))["param"] == "text"
        ids = {"input_ids": [4], "return_text_in_logprobs": True}
        assert (await http.refused("/generate", ids))["param"] == "return_text_in_logprobs"
    assert not worker.prompts


async def test_tools_are_shown_to_the_model_without_a_parser(chat: Chat) -> None:
    tools = [{"type": "function", "function": {"name": "get_weather"}}]
    chat.script("<tool_call>")
    answer = await chat.ask(ASK, tools=tools, tool_choice="none")
    assert '{"name": "get_weather"}' in chat.text(answer.prompt_token_ids)
    assert answer.choices[0].message.content == "<tool_call>"


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
async def test_reasoning_is_sent_back_under_either_name(chat: Chat, name: str) -> None:
    template = "{% for m in messages %}[{{ m.reasoning_content }}|{{ m.content }}]{% endfor %}"
    talk = [*ASK, {"role": "assistant", "content": "sunny", name: "hm"}, {"role": "user", "content": "and Rome"}]
    body = {"messages": talk, "chat_template": template}
    rendered = (await chat.http.post("/v1/chat/completions/render", body)).json()
    assert rendered["text"] == "[|the weather in Paris][hm|sunny][|and Rome]"


async def test_null_is_nothing_whatever_the_fields_of_a_message_are_called(chat: Chat) -> None:
    first, *_ = chat.script("sunny", "warm", "hot")
    answer = await chat.ask(ASK, session="s")
    call = {"type": "function", "id": "c", "extra": None, "function": {"name": "f", "arguments": "{}", "strict": None}}
    message = {"role": "assistant", "content": "sunny", "reasoning": None, "refusal": None, "mood": None}
    talk = [*ASK, message, {"role": "user", "content": [{"type": "text", "text": "and Rome", "annotations": None}]}]
    later = await chat.ask(talk, session="s")
    assert later.prompt_token_ids[: len(answer.prompt_token_ids) + len(first)] == [*answer.prompt_token_ids, *first]
    assert await chat.ask([*ASK, {**message, "tool_calls": [call]}, {"role": "user", "content": "x"}])


async def test_what_concerns_accounts_has_no_effect(chat: Chat) -> None:
    chat.script("sunny", "warm")
    of_accounts: dict[str, Any] = {"user": "u", "metadata": {"run": "7", "n": 1}, "safety_identifier": "s"}
    of_accounts |= {"prompt_cache_key": "k", "store": False}
    assert (await chat.ask(ASK, extra_body=of_accounts)).choices[0].message.content == "sunny"
    completion = await chat.http.post("/v1/completions", {"prompt": [4, 5], "max_tokens": 1, **of_accounts})
    assert completion.status_code == 200


async def test_sglangs_clients_get_the_prompt_and_meta_info_with_each_choice(chat: Chat) -> None:
    said, _ = chat.script("sunny", "warm")
    asked = {"messages": ASK, "return_prompt_token_ids": True, "return_meta_info": True, "logprobs": True}
    answer = (await chat.http.post("/v1/chat/completions", {**asked, "stop_token_ids": [chat.end]})).json()
    [choice] = answer["choices"]
    assert choice["prompt_token_ids"] == chat.ids(ASKED)
    meta = choice["meta_info"]
    assert meta["finish_reason"] == {"type": "stop", "matched": chat.end}
    assert (meta["prompt_tokens"], meta["completion_tokens"]) == (len(chat.ids(ASKED)), len(said))
    assert (meta["weight_version"], answer["id"]) == ("0", f"chatcmpl-{meta['id']}")
    assert meta["output_token_logprobs"] == [[-token / 128, token, None] for token in said]
    plain = (await chat.http.post("/v1/chat/completions", {"messages": ASK, "max_tokens": 1})).json()
    assert not {"prompt_token_ids", "meta_info"} & plain["choices"][0].keys()


@pytest.mark.parametrize("streams", [False, True])
async def test_a_prompt_may_come_as_tokens_beside_its_messages(chat: Chat, streams: bool) -> None:
    first, _ = chat.script("sunny", "warm")
    ids = [*chat.bytes("weather"), 7]
    await chat.ask(ASK, session="s", stream=streams, extra_body={"input_ids": ids})
    assert list(chat.worker.prompts[0].token_ids) == ids
    talk = [*ASK, {"role": "assistant", "content": "sunny"}, {"role": "user", "content": "and Rome"}]
    later = await chat.ask(talk, session="s")
    assert later.prompt_token_ids[: len(ids) + len(first)] == [*ids, *first]
