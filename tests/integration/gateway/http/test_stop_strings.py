"""Stop strings on a gateway, in every protocol."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from tests.fakes.chat_model import write_chat_model
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import Http, Serve

SAID = "ask <search>Paris</search> now"
STOP = "</search>"
SHOWN = "ask <search>Paris"


class Searching:
    """A gateway with a tokenizer, in front of a worker that always says `SAID`, in single bytes."""

    def __init__(self, http: Http, worker: FakeWorker, tokenizer: Tokenizer) -> None:
        self.http, self.tokenizer = http, tokenizer
        worker.decode = lambda ids: str(tokenizer.decode(ids, skip_special_tokens=False))
        self.prompt = list(tokenizer.encode("the weather").ids)
        ids = [token for character in SAID for token in tokenizer.encode(character).ids]
        self.tokens = ids[: len(SHOWN + STOP)]
        worker.next_token = lambda tokens: ids[len(tokens) - len(worker.prompts[-1].token_ids)]
        self.worker = worker

    async def sampled(self, path: str, **body: Any) -> Any:
        answer = await self.http.post(path, body)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
async def search(serve: Serve, tmp_path: Path) -> AsyncIterator[Searching]:
    tokenizer = write_chat_model(tmp_path / "model")
    settings = {"listen": "127.0.0.1:0", "tokenizer": tmp_path / "model"}
    async with FakeWorker("w0", vocab_size=300, context_length=2048) as worker:
        worker.decode = lambda _ids: ""
        async with serve(worker, http=settings) as http:
            yield Searching(http, worker, tokenizer)


@pytest.mark.parametrize(("trim", "shown"), [({}, SHOWN), ({"no_stop_trim": True}, SHOWN + STOP)])
async def test_generate_ends_with_the_token_that_completes_it(
    search: Searching, trim: dict[str, Any], shown: str
) -> None:
    sampling = {"max_new_tokens": 99, "stop": ["</answer>", STOP], **trim}
    body = {"input_ids": search.prompt, "sampling_params": sampling, "return_logprob": True}
    answer = await search.sampled("/generate", **body)
    assert (answer["text"], answer["output_ids"]) == (shown, search.tokens)
    meta = answer["meta_info"]
    assert meta["finish_reason"] == {"type": "stop", "matched": STOP}
    assert meta["completion_tokens"] == len(meta["output_token_logprobs"]) == len(search.tokens)
    assert not search.worker.hung_up


async def test_a_stream_shows_no_part_of_it(search: Searching) -> None:
    body = {"input_ids": search.prompt, "sampling_params": {"max_new_tokens": 99, "stop": STOP}, "stream": True}
    events = await search.http.events("/generate", body)
    assert all(SHOWN.startswith(event["text"]) for event in events)
    assert (events[-1]["text"], events[-1]["output_ids"]) == (SHOWN, search.tokens)


@pytest.mark.parametrize(
    ("option", "shown"),
    [({}, SHOWN), ({"include_stop_str_in_output": True}, SHOWN + STOP), ({"no_stop_trim": True}, SHOWN + STOP)],
)
async def test_completions_name_it(search: Searching, option: dict[str, Any], shown: str) -> None:
    body = {"prompt": search.prompt, "max_tokens": 99, "stop": STOP, "return_token_ids": True, "logprobs": 1, **option}
    [choice] = (await search.sampled("/v1/completions", **body))["choices"]
    assert (choice["text"], choice["token_ids"]) == (shown, search.tokens)
    assert (choice["finish_reason"], choice["stop_reason"], choice["matched_stop"]) == ("stop", STOP, STOP)
    assert choice["logprobs"]["text_offset"] == list(range(len(search.tokens)))
    events = await search.http.events("/v1/completions", body | {"stream": True})
    assert "".join(event["choices"][0]["text"] for event in events) == shown
    assert [event["choices"][0]["stop_reason"] for event in events][-1] == STOP


async def test_chat_remembers_the_tokens_of_the_turn(search: Searching) -> None:
    messages = [{"role": "user", "content": "the weather"}]
    body = {"messages": messages, "stop": [STOP], "max_tokens": 99, "return_token_ids": True}
    answer = await search.sampled("/v1/chat/completions", **body)
    [choice] = answer["choices"]
    assert (choice["message"]["content"], choice["token_ids"]) == (SHOWN, search.tokens)
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", STOP)
    events = await search.http.events("/v1/chat/completions", body | {"stream": True})
    assert "".join(event["choices"][0]["delta"]["content"] for event in events) == SHOWN
    messages += [choice["message"], {"role": "user", "content": "and now"}]
    again = await search.sampled("/v1/chat/completions", **body | {"messages": messages})
    begun = [*answer["prompt_token_ids"], *search.tokens]
    assert again["prompt_token_ids"][: len(begun)] == begun


async def test_token_ids_end_with_it(search: Searching) -> None:
    sampling = {"max_tokens": 99, "stop": [STOP], "include_stop_str_in_output": True}
    answer = await search.sampled("/inference/v1/generate", token_ids=search.prompt, sampling_params=sampling)
    assert answer["choices"][0]["token_ids"] == search.tokens
    assert answer["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("stop", "why"),
    [
        ([""], "has 0 characters; accepted: 1 to 128"),
        (["x" * 129], "has 129 characters"),
        (["x"] * 33, "has 33 entries; the maximum is 32"),
        ([5], "valid string"),
    ],
)
async def test_what_cannot_be_a_stop_string_is_refused(search: Searching, stop: list[Any], why: str) -> None:
    error = await search.http.refused("/v1/completions", {"prompt": [4], "stop": stop})
    assert error["param"].startswith("stop")
    assert why in error["message"]


CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("/generate", {"input_ids": [4], "sampling_params": {"stop": ["x"], "max_new_tokens": 2}}, "sampling_params.stop"),
    ("/v1/completions", {"prompt": [4], "stop": ["x"]}, "stop"),
    ("/inference/v1/generate", {"token_ids": [4], "sampling_params": {"stop": ["x"]}}, "sampling_params.stop"),
]


@pytest.mark.parametrize(("path", "body", "field"), CALLS)
async def test_a_model_without_a_tokenizer_has_none(
    serve: Serve, worker: FakeWorker, path: str, body: dict[str, Any], field: str
) -> None:
    async with serve(worker) as http:
        error = await http.refused(path, body)
        sampling = body.get("sampling_params", body)
        sampling["stop"] = []
        assert (await http.post(path, body)).status_code == 200
    assert error["param"] == field
    assert "tokenizer.json" in error["message"]
