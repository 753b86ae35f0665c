"""Log-probabilities of prompts: over gRPC, SGLang's and vLLM's HTTP, once, whatever became of the attempts."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.http.conftest import Serve, serve
from tlt_common.client import PromptLogprobs, SamplingParams
from tlt_common.domain.batch import Batch, SampleStart
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.errors import InvalidRequestError
from tlt_common.rpc.channel import connect
from tlt_common.wire import rollout as wire

__all__ = ["serve"]

PROMPT = [5, 6, 9]
EIGHT = SamplingParams(max_new_tokens=8)
HTTP_TWO = {"max_new_tokens": 2}
VLLM = [None, {"6": {"logprob": -6 / 128}}, {"9": {"logprob": -9 / 128}}]


@pytest_asyncio.fixture
async def workers() -> AsyncIterator[tuple[FakeWorker, FakeWorker]]:
    async with FakeWorker("w0", max_running=2) as first, FakeWorker("w1", max_running=2) as second:
        yield first, second


def values(found: PromptLogprobs | None) -> tuple[int, list[float]]:
    assert found is not None
    return found.first, list(found.logprobs)


def of(*tokens: int) -> list[float]:
    """What fake workers return for tokens of a prompt."""
    return [-token / 128 for token in tokens]


def entries(*pairs: tuple[float | None, int]) -> list[list[Any]]:
    return [[value, token, None] for value, token in pairs]


@pytest.mark.parametrize(("start_at", "expected"), [(0, (1, of(6, 9))), (1, (1, of(6, 9))), (2, (2, of(9)))])
async def test_they_come_once_with_the_first_tokens(
    start: Start, worker: FakeWorker, start_at: int, expected: tuple[int, list[float]]
) -> None:
    async with start(worker) as client:
        whole = await client.generate(PROMPT, EIGHT, prompt_logprobs_start=start_at)
        assert values(whole.prompt_logprobs) == expected
        chunks = [chunk async for chunk in client.stream(PROMPT, EIGHT, prompt_logprobs_start=start_at)]
        assert values(chunks[0].prompt_logprobs) == expected
        assert all(chunk.prompt_logprobs is None for chunk in chunks[1:])
        [pair] = await client.batch([PROMPT], 2, EIGHT, prompt_logprobs_start=start_at)
        assert [values(response.prompt_logprobs) for response in pair] == [expected] * 2
        assert (await client.generate(PROMPT, EIGHT)).prompt_logprobs is None


async def test_a_response_continued_by_hand_may_ask_for_them(start: Start, worker: FakeWorker) -> None:
    async with start(worker) as client:
        rest = await client.generate(PROMPT, EIGHT, prefix_ids=[10, 11], prompt_logprobs_start=0)
        alone = await client.generate([5], EIGHT, prompt_logprobs_start=0)
    assert values(rest.prompt_logprobs) == (1, of(6, 9))
    assert values(alone.prompt_logprobs) == (1, [])


async def test_a_position_behind_the_prompt_is_refused(start: Start, worker: FakeWorker) -> None:
    async with start(worker) as client:
        for wrong in (-1, 3):
            accepted = rf"prompt_logprobs_start is {wrong}; accepted: from 0 to 2"
            with pytest.raises(InvalidRequestError, match=accepted) as raised:
                await client.generate(PROMPT, EIGHT, prompt_logprobs_start=wrong)
            assert raised.value.field == "prompt.prompt_logprobs_start"


@pytest.mark.parametrize("tokens", [0, 3])
async def test_a_response_that_lost_its_worker_asks_again_only_for_what_has_not_come(
    start: Start, workers: tuple[FakeWorker, FakeWorker], tokens: int
) -> None:
    for worker in workers:
        worker.free_tokens = tokens
        worker.gate.clear()
    async with start(*workers) as client:
        response = client.stream(PROMPT, EIGHT, prompt_logprobs_start=1)
        first = asyncio.ensure_future(anext(response))
        busy = await _busy(workers)
        chunks = [await first] if tokens else []
        await busy.kill()
        for worker in workers:
            worker.gate.set()
        chunks += [] if tokens else [await first]
        chunks += [chunk async for chunk in response]
    (other,) = [worker for worker in workers if worker is not busy]
    assert [prompt.prompt_logprobs_start for prompt in other.prompts] == [None if tokens else 1]
    found = [chunk for chunk in chunks if chunk.prompt_logprobs is not None]
    assert [values(chunk.prompt_logprobs) for chunk in found] == [(1, of(6, 9))]
    assert [token for chunk in chunks for token in chunk.token_ids] == [*range(10, 18)]


async def test_a_pause_keeps_what_has_come(start: Start, worker: FakeWorker) -> None:
    worker.free_tokens = 2
    worker.gate.clear()
    async with start(worker) as client:
        running = asyncio.create_task(client.batch([PROMPT], 2, EIGHT, prompt_logprobs_start=0))
        await worker.until(2)
        await client.pause("keep")
        await worker.until(0)
        worker.gate.set()
        await client.proceed()
        [pair] = await running
    assert [values(response.prompt_logprobs) for response in pair] == [(1, of(6, 9))] * 2
    assert [len(response.token_ids) for response in pair] == [8, 8]


async def test_a_sample_that_starts_from_a_prefix_has_returned_them(start: Start, worker: FakeWorker) -> None:
    asking = Prompt(request_id=RequestId("b"), token_ids=tuple(PROMPT), sampling=EIGHT, prompt_logprobs_start=0)
    prefixes = ((10,), ())
    starts = [SampleStart(prompt_index=0, sample_index=at, prefix_token_ids=ids) for at, ids in enumerate(prefixes)]
    batch = Batch(prompts=[asking], samples_per_prompt=2, starts=starts)
    async with start(worker) as client, connect(client.endpoint) as channel:
        call = wire.Stub(channel).GenerateBatch(wire.batch_to_pb(batch), timeout=10)
        found = {message.sample_index: wire.chunk_from_pb(message.response).prompt_logprobs async for message in call}
    assert found[0] is None
    assert values(found[1]) == (1, of(6, 9))


async def _busy(workers: tuple[FakeWorker, FakeWorker]) -> FakeWorker:
    async with asyncio.timeout(10):
        while not (running := [worker for worker in workers if worker.running]):  # noqa: ASYNC110 - of either worker
            await asyncio.sleep(0.01)
    return running[0]


@pytest.mark.parametrize(
    ("start_len", "expected"),
    [
        (0, entries((None, 5), (-6 / 128, 6), (-9 / 128, 9))),
        (1, entries((None, 6), (-9 / 128, 9))),
        (2, entries((None, 9))),
        (3, []),
        (-1, []),
        (None, []),
    ],
)
async def test_sglangs_answers_have_an_entry_per_token_the_first_without_a_value(
    serve: Serve, worker: FakeWorker, start_len: int | None, expected: list[Any]
) -> None:
    body = {"input_ids": PROMPT, "sampling_params": HTTP_TWO, "return_logprob": True, "logprob_start_len": start_len}
    async with serve(worker) as http:
        assert (await http.post("/generate", body)).json()["meta_info"]["input_token_logprobs"] == expected
        events = await http.events("/generate", body | {"stream": True})
        assert [event["meta_info"]["input_token_logprobs"] for event in events] == [expected] * len(events)
        unasked = (await http.post("/generate", body | {"return_logprob": False})).json()
    assert "input_token_logprobs" not in unasked["meta_info"]


async def test_each_prompt_of_a_list_has_its_own_position(serve: Serve, worker: FakeWorker) -> None:
    body = {
        "input_ids": [PROMPT, [7, 8], [4]],
        "sampling_params": HTTP_TWO | {"n": 2},
        "return_logprob": [True, True, False],
        "logprob_start_len": [1, -1, 0],
    }
    async with serve(worker) as http:
        answers = (await http.post("/generate", body)).json()
        error = await http.refused("/generate", body | {"logprob_start_len": [1, 3, 0]})
    found = [answer["meta_info"].get("input_token_logprobs") for answer in answers]
    assert found == [entries((None, 6), (-9 / 128, 9))] * 2 + [[]] * 2 + [None] * 2
    assert error["param"] == "logprob_start_len"
    assert "logprob_start_len is 3; accepted: 0 to 2" in error["message"]


async def test_an_aborted_response_without_tokens_scores_no_prompt(serve: Serve, worker: FakeWorker) -> None:
    worker.gate.clear()
    body = {
        "input_ids": PROMPT,
        "sampling_params": HTTP_TWO,
        "return_logprob": True,
        "logprob_start_len": 0,
        "rid": "a",
    }
    async with serve(worker) as http:
        calling = asyncio.create_task(http.post("/generate", body))
        await worker.until(1)
        await http.post("/abort_request", {"rid": "a"})
        meta = (await calling).json()["meta_info"]
    assert meta["finish_reason"]["type"] == "abort"
    assert meta["input_token_logprobs"] == []


@pytest.mark.parametrize("count", [0, 1])
async def test_vllms_answers_have_an_object_per_token(serve: Serve, worker: FakeWorker, count: int) -> None:
    async with serve(worker) as http:
        body: dict[str, Any] = {"prompt": [PROMPT, [4]], "max_tokens": 2, "n": 2, "prompt_logprobs": count}
        choices = (await http.post("/v1/completions", body)).json()["choices"]
        assert [choice["prompt_logprobs"] for choice in choices] == [VLLM, VLLM, [None], [None]]
        body = {"token_ids": PROMPT, "sampling_params": {"max_tokens": 2, "n": 2, "prompt_logprobs": count}}
        answer = (await http.post("/inference/v1/generate", body)).json()
        assert answer["prompt_logprobs"] == VLLM
        body["sampling_params"]["prompt_logprobs"] = None
        assert "prompt_logprobs" not in (await http.post("/inference/v1/generate", body)).json()


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/completions", {"prompt": PROMPT, "prompt_logprobs": 2}, "prompt_logprobs"),
        ("/v1/completions", {"prompt": PROMPT, "prompt_logprobs": 0, "stream": True}, "prompt_logprobs"),
        ("/v1/completions", {"prompt": PROMPT, "prompt_logprobs": -1}, "prompt_logprobs"),
        (
            "/inference/v1/generate",
            {"token_ids": PROMPT, "sampling_params": {"prompt_logprobs": 5}},
            "sampling_params.prompt_logprobs",
        ),
    ],
)
async def test_other_tokens_and_streams_are_refused_by_name(
    serve: Serve, worker: FakeWorker, path: str, body: dict[str, Any], field: str
) -> None:
    async with serve(worker) as http:
        assert (await http.refused(path, body))["param"] == field
    assert not worker.prompts


async def test_a_worker_keeps_none_for_a_call_that_may_be_repeated(serve: Serve, worker: FakeWorker) -> None:
    body = {"input_ids": PROMPT, "sampling_params": HTTP_TWO, "rid": "mine", "return_logprob": True}
    async with serve(worker) as http:
        await http.post("/generate", body)
        await http.post("/generate", body | {"logprob_start_len": 0})
    assert [bool(prompt.keep_key) for prompt in worker.prompts] == [True, False]
