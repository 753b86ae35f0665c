"""What prompts and texts a model's own files make, over HTTP."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.chat_model import Script
from tests.fakes.tokenizers import KINDS
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import Http, Serve
from tests.integration.gateway.http.test_chat import ASK, Chat
from tests.integration.gateway.http.test_chat import chat as chat  # noqa: PLC0414 - a fixture

PATH = "/v1/chat/completions"
TOOLS = [{"type": "function", "function": {"name": "f"}}]
TOKENS = "tokens: [{name: trainer, token: secret-of-the-trainer, scopes: [generate]}]"


async def rendered(http: Http, body: dict[str, Any], **options: Any) -> str:
    answer = await http.post(f"{PATH}/render", {"messages": ASK} | body, **options)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["text"])


class Llama:
    """A gateway whose model has a tokenizer with bytes for what it does not know, in front of a scripted worker."""

    def __init__(self, http: Http, worker: FakeWorker) -> None:
        self.http, self.worker = http, worker
        self.the = KINDS["byte_fallback"]().token_to_id("▁the") or 0

    def script(self, *responses: list[int]) -> None:
        self.worker.next_token = Script(*responses)


@pytest.fixture
async def llama(serve: Serve, tmp_path: Path) -> AsyncIterator[Llama]:
    model = tmp_path / "model"
    model.mkdir()
    KINDS["byte_fallback"]().save(str(model / "tokenizer.json"))
    config = {"eos_token": "</s>", "bos_token": "<s>", "tokenizer_class": "LlamaTokenizer"}
    (model / "tokenizer_config.json").write_text(json.dumps(config))
    (model / "chat_template.jinja").write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}")
    (model / "additional_chat_templates").mkdir()
    (model / "additional_chat_templates" / "tool_use.jinja").write_text("{{ bos_token }}tools: {{ tools | length }}")
    settings = {"listen": "127.0.0.1:0", "tokenizer": model}
    async with AsyncExitStack() as stack:
        worker = await stack.enter_async_context(FakeWorker("w0", vocab_size=300))
        yield Llama(await stack.enter_async_context(serve(worker, http=settings)), worker)


def byte(value: int) -> int:
    return 3 + value


@pytest.mark.parametrize("path", ["/generate", "/v1/completions", PATH])
@pytest.mark.parametrize("streams", [False, True])
async def test_half_a_character_costs_neither_tokens_nor_other_prompts(llama: Llama, path: str, streams: bool) -> None:
    half = [byte(0xE4), byte(0xBD), byte(0xA0), byte(0xE5), llama.the]
    llama.script(half, half)
    bodies: dict[str, dict[str, Any]] = {
        "/generate": {"input_ids": [[9], [8]], "sampling_params": {"max_new_tokens": 5}},
        "/v1/completions": {"prompt": [[9], [8]], "max_tokens": 5, "return_token_ids": True},
        PATH: {"messages": ASK, "max_tokens": 5, "n": 2, "return_token_ids": True},
    }
    body = bodies[path]
    texts, ids = {0: "", 1: ""}, dict[int, list[int]]({0: [], 1: []})
    if not streams:
        answer = (await llama.http.post(path, body)).json()
        for place, one in enumerate(answer if isinstance(answer, list) else answer["choices"]):
            texts[place] = one.get("text") or one["message"]["content"]
            ids[place] = one.get("output_ids") or one["token_ids"]
    else:
        for event in await llama.http.events(path, body | {"stream": True}):
            if "choices" not in event:
                texts[event["index"]], ids[event["index"]] = event["text"], event["output_ids"]
                continue
            (one,) = event["choices"]
            texts[one["index"]] += one.get("text") or one.get("delta", {}).get("content") or ""
            ids[one["index"]] += one["token_ids"]
    assert set(texts.values()) == {"你\ufffd the"}
    assert sorted(map(len, ids.values())) == [5, 5]


async def test_texts_begin_with_bos_and_tools_have_a_template_of_their_own(llama: Llama) -> None:
    tokens = (await llama.http.post("/tokenize", {"prompt": "the"})).json()["tokens"]
    assert tokens == [1, llama.the]
    assert (await rendered(llama.http, {"tools": TOOLS})).replace(" ", "") == "<s>tools:1"
    assert await rendered(llama.http, {"tools": TOOLS, "chat_template": "default"}) == "[the weather in Paris]"


async def test_a_turn_that_was_cut_loses_nothing_of_its_end(chat: Chat) -> None:
    sampled = chat.bytes("1 <")
    chat.worker.next_token = Script(sampled, [*chat.bytes("ok"), chat.end])
    first = await chat.ask(ASK, max_tokens=len(sampled))
    assert (first.choices[0].finish_reason, first.choices[0].message.content) == ("length", "1 <")
    talk = [*ASK, {"role": "assistant", "content": "1 <"}, {"role": "user", "content": "and Rome"}]
    after = "<|im_end|>\n<|im_start|>user\nand Rome<|im_end|>\n<|im_start|>assistant\n"
    second = await chat.ask(talk)
    assert second.prompt_token_ids == [*first.prompt_token_ids, *sampled, *chat.ids(after)]
    given = {"prompt_token_ids": first.prompt_token_ids, "generation_token_ids": sampled}
    tokens = (await chat.http.post("/tokenize", {"messages": [*ASK, {**talk[1], **given}, talk[2]]})).json()["tokens"]
    assert tokens == second.prompt_token_ids


async def test_a_message_is_continued_with_the_tokens_it_has(chat: Chat) -> None:
    sampled = chat.bytes("sun")
    chat.worker.next_token = Script(sampled, [*chat.bytes("ny"), chat.end])
    first = await chat.ask(ASK, max_tokens=3)
    talk = [*ASK, {"role": "assistant", "content": "sun"}]
    second = await chat.ask(talk, extra_body={"continue_final_message": True})
    assert second.prompt_token_ids == [*first.prompt_token_ids, *sampled]
    assert second.choices[0].message.content == "ny"
    third = [*ASK, {"role": "assistant", "content": "sunny"}, {"role": "user", "content": "x"}]
    tokens = (await chat.http.post("/tokenize", {"messages": third})).json()["tokens"]
    assert tokens[: len(second.prompt_token_ids)] == second.prompt_token_ids
    unknown = [*ASK, {"role": "assistant", "content": "warm"}]
    text = await rendered(chat.http, {"messages": unknown, "continue_final_message": True})
    assert text == "<|im_start|>user\nthe weather in Paris<|im_end|>\n<|im_start|>assistant\nwarm"
    for body in ({"messages": ASK}, {"messages": unknown, "add_generation_prompt": True}):
        error = await chat.http.refused(PATH, body | {"continue_final_message": True})
        assert error["param"] == "continue_final_message"


async def test_parts_are_joined_or_shown_as_the_template_reads_them(chat: Chat) -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    for template, expected in (
        ("{{ messages[0].content }}", "a b"),
        ("{% for m in messages %}{% for part in m.content %}<{{ part.text }}>{% endfor %}{% endfor %}", "<a><b>"),
        ("{% for d in documents %}{{ d.text }}{% endfor %}", "facts"),
    ):
        body = {"messages": parts, "chat_template": template, "documents": [{"text": "facts"}]}
        assert await rendered(chat.http, body) == expected


@pytest.mark.parametrize("accepts", [None, True])
async def test_callers_with_tokens_bring_no_templates_by_default(
    serve: Serve, tmp_path: Path, accepts: bool | None
) -> None:
    (tmp_path / "tokens.yaml").write_text(TOKENS)
    directory = tmp_path / "model"
    directory.mkdir()
    KINDS["byte_level"]().save(str(directory / "tokenizer.json"))
    settings = {"listen": "127.0.0.1:0", "tokenizer": directory, "request_templates": accepts}
    async with (
        FakeWorker("w0", vocab_size=300) as worker,
        serve(worker, http=settings, tokens=tmp_path / "tokens.yaml") as http,
    ):
        http.client.headers["Authorization"] = "Bearer secret-of-the-trainer"
        if accepts:
            assert await rendered(http, {"chat_template": "x"}) == "x"
        else:
            error = await http.refused(f"{PATH}/render", {"messages": ASK, "chat_template": "x"})
            assert (error["param"], "http.request_templates" in error["message"]) == ("chat_template", True)


async def test_a_template_that_does_not_end_is_refused_while_others_are_served(chat: Chat) -> None:
    endless = "{% for _ in range(99999) %}{% for _ in range(99999) %}{% endfor %}{% endfor %}"
    error = await chat.http.refused(PATH, {"messages": ASK, "chat_template": endless})
    assert (error["param"], "CPU time" in error["message"]) == ("messages", True)
    assert await rendered(chat.http, {"chat_template": "x"}) == "x"
