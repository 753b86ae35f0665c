"""Text of prompts and responses in SGLang's and OpenAI's calls, with a tokenizer."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tests.fakes.chat_model import write_chat_model
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import Http, Serve

ASKED = "the weather in Paris"
SAID = "天气很好 🌞"
"""Of which every character has several tokens."""


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return write_chat_model(tmp_path / "model")


@pytest.fixture
def said(tokenizer: Tokenizer) -> list[int]:
    return list(tokenizer.encode(SAID).ids)


@pytest.fixture
async def http(serve: Serve, tmp_path: Path, tokenizer: Tokenizer, said: list[int]) -> AsyncIterator[Http]:
    settings = {"listen": "127.0.0.1:0", "tokenizer": tmp_path / "model"}
    prompt_tokens = len(tokenizer.encode(ASKED).ids)
    async with FakeWorker("w0", vocab_size=300) as worker, serve(worker, http=settings) as client:
        worker.next_token = lambda tokens: said[len(tokens) - prompt_tokens]
        yield client


async def test_generate_takes_and_returns_text(http: Http, tokenizer: Tokenizer, said: list[int]) -> None:
    sampling = {"max_new_tokens": len(said)}
    body = {"text": ASKED, "sampling_params": sampling, "return_logprob": True, "return_text_in_logprobs": True}
    answer = (await http.post("/generate", body)).json()
    assert (answer["text"], answer["output_ids"]) == (SAID, said)
    assert answer["meta_info"]["prompt_tokens"] == len(tokenizer.encode(ASKED).ids)
    entries = answer["meta_info"]["output_token_logprobs"]
    assert [entry[2] for entry in entries] == [tokenizer.decode([token]) for token in said]
    events = await http.events("/generate", body | {"stream": True})
    assert events[-1]["text"] == SAID
    assert all(SAID.startswith(event["text"]) for event in events)


async def test_completions_take_and_return_text(http: Http, tokenizer: Tokenizer, said: list[int]) -> None:
    body = {"prompt": ASKED, "max_tokens": len(said), "logprobs": 1}
    [choice] = (await http.post("/v1/completions", body)).json()["choices"]
    assert choice["text"] == SAID
    assert choice["logprobs"]["tokens"] == [tokenizer.decode([token]) for token in said]
    shown = [len(tokenizer.decode(said[:place]).rstrip("\ufffd")) for place in range(len(said))]
    assert choice["logprobs"]["text_offset"] == shown
    events = await http.events("/v1/completions", body | {"stream": True})
    assert "".join(event["choices"][0]["text"] for event in events) == SAID
