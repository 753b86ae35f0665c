"""OpenAI's and vLLM's endpoints on a gateway."""

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import Serve


async def test_a_completion_has_tokens_and_logprobs(serve: Serve, worker: FakeWorker) -> None:
    body = {"model": "fake", "prompt": [4, 5], "max_tokens": 3, "logprobs": 0, "return_token_ids": True}
    async with serve(worker) as http:
        answer = (await http.post("/v1/completions", body)).json()
    [choice] = answer["choices"]
    assert (choice["token_ids"], choice["prompt_token_ids"], choice["finish_reason"]) == ([6, 7, 8], [4, 5], "length")
    assert choice["logprobs"]["token_logprobs"] == [-6 / 128, -7 / 128, -8 / 128]
    assert choice["logprobs"]["tokens"] == ["token_id:6", "token_id:7", "token_id:8"]
    assert answer["usage"] == {
        "prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0},
    }  # fmt: skip


async def test_prompts_and_samples_come_back_in_order(serve: Serve, worker: FakeWorker) -> None:
    body = {"prompt": [[4], [9]], "max_tokens": 2, "n": 2, "return_token_ids": True}
    async with serve(worker) as http:
        choices = (await http.post("/v1/completions", body)).json()["choices"]
    assert [choice["token_ids"] for choice in choices] == [[5, 6], [5, 6], [10, 11], [10, 11]]
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]


async def test_a_stream_sends_each_token_once(serve: Serve, worker: FakeWorker) -> None:
    body = {"prompt": [4], "max_tokens": 5, "stream": True, "return_token_ids": True}
    async with serve(worker) as http:
        events = await http.events("/v1/completions", body)
    assert [token for event in events for token in event["choices"][0]["token_ids"]] == [5, 6, 7, 8, 9]
    assert [event["choices"][0]["finish_reason"] for event in events][-1] == "length"
    assert len({event["id"] for event in events}) == 1
    assert {event["usage"] for event in events} == {None}


async def test_a_stream_ends_with_the_number_of_tokens_if_asked_for(serve: Serve, worker: FakeWorker) -> None:
    body = {"prompt": [[4], [9]], "max_tokens": 3, "stream": True, "stream_options": {"include_usage": True}}
    async with serve(worker) as http:
        *events, last = await http.events("/v1/completions", body)
    assert all(event["choices"] and event["usage"] is None for event in events)
    assert last["choices"] == []
    assert last["usage"].items() >= {"prompt_tokens": 2, "completion_tokens": 6, "total_tokens": 8}.items()


async def test_tokens_in_and_out(serve: Serve, worker: FakeWorker) -> None:
    body = {
        "token_ids": [4], "sampling_params": {"max_tokens": 2, "logprobs": 1, "routed_experts_prompt_start": 3},
        "model": "/models/fake/",
        "request_id": "r", "cache_salt": "3",
    }  # fmt: skip
    async with serve(worker) as http:
        answer = (await http.post("/inference/v1/generate", body)).json()
    assert answer["request_id"] == "r"
    [choice] = answer["choices"]
    assert choice["token_ids"] == [5, 6]
    assert [entry["logprob"] for entry in choice["logprobs"]["content"]] == [-5 / 128, -6 / 128]


async def test_other_models_are_not_served(serve: Serve, worker: FakeWorker) -> None:
    async with serve(worker) as http:
        answer = await http.post("/v1/completions", {"prompt": [4], "model": "other"})
        assert answer.status_code == 404
        [model] = (await http.client.get("/v1/models")).json()["data"]
    assert (model["id"], model["max_model_len"]) == ("fake", 128)


async def test_tokens_in_and_several_samples_out(serve: Serve, worker: FakeWorker) -> None:
    # As SkyRL sends it: always with include_stop_str_in_output, whether or not there are stop strings.
    sampling = {"max_tokens": 2, "n": 2, "logprobs": 0, "stop": None, "include_stop_str_in_output": True}
    async with serve(worker) as http:
        answer = (await http.post("/inference/v1/generate", {"token_ids": [4], "sampling_params": sampling})).json()
        error = await http.refused("/inference/v1/generate", {"token_ids": [4], "sampling_params": {"n": 0}})
    assert [(choice["index"], choice["token_ids"]) for choice in answer["choices"]] == [(0, [5, 6]), (1, [5, 6])]
    assert [choice["weight_versions"] for choice in answer["choices"]] == [[{"version": "0", "start": 0, "end": 2}]] * 2
    assert answer["usage"]["completion_tokens"] == 4
    assert error["param"] == "sampling_params.n"
