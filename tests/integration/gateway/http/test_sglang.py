"""SGLang's endpoints on a gateway."""

import asyncio

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import Serve

EIGHT = {"max_new_tokens": 3, "temperature": 1.0}


async def test_a_response_has_all_that_trainers_read(serve: Serve, worker: FakeWorker) -> None:
    body = {"input_ids": [4, 5], "sampling_params": EIGHT, "return_logprob": True, "rid": "mine"}
    async with serve(worker) as http:
        answer = (await http.post("/generate", body)).json()
    assert answer["output_ids"] == [6, 7, 8]
    meta = answer["meta_info"]
    assert meta["id"] == "mine"
    assert meta["finish_reason"] == {"type": "length", "length": 3}
    assert (meta["prompt_tokens"], meta["completion_tokens"], meta["weight_version"]) == (2, 3, "0")
    assert meta["weight_versions"] == [{"version": "0", "start": 0, "end": 3}]
    assert [entry[1] for entry in meta["output_token_logprobs"]] == [6, 7, 8]
    assert meta["output_token_logprobs"][0][0] == -6 / 128


async def test_lists_and_samples_come_back_in_order(serve: Serve, worker: FakeWorker) -> None:
    async with serve(worker) as http:
        many = await http.post("/generate", {"input_ids": [[4], [9]], "sampling_params": [EIGHT, EIGHT]})
        assert [answer["output_ids"] for answer in many.json()] == [[5, 6, 7], [10, 11, 12]]
        samples = await http.post("/generate", {"input_ids": [4], "sampling_params": {**EIGHT, "n": 2}})
        assert [answer["output_ids"] for answer in samples.json()] == [[5, 6, 7]] * 2


async def test_prompts_to_come_are_announced_and_not_answered(serve: Serve, worker: FakeWorker) -> None:
    async with serve(worker) as http:
        body = {"input_ids": [[4], [9]], "sampling_params": {**EIGHT, "n": 2}}
        assert (await http.post("/announce", body)).json() == {"workers": 1}
        refused = await http.refused("/announce", {"input_ids": [[4], [5, 1000]], "sampling_params": EIGHT})
    assert [prompt.token_ids for prompt in worker.announced[""]] == [(4,), (4,), (9,), (9,)]
    assert worker.prompts == []
    assert "input_ids[1][1]" in refused["message"]


async def test_a_stream_repeats_all_tokens_so_far(serve: Serve, worker: FakeWorker) -> None:
    async with serve(worker) as http:
        events = await http.events("/generate", {"input_ids": [4], "sampling_params": EIGHT, "stream": True})
    assert events[-1]["output_ids"] == [5, 6, 7]
    assert events[-1]["meta_info"]["finish_reason"]["type"] == "length"
    assert all(event["output_ids"] == [5, 6, 7][: len(event["output_ids"])] for event in events)


async def test_fields_that_ask_for_nothing_are_accepted(serve: Serve, worker: FakeWorker) -> None:
    neutral = {
        "return_hidden_states": False, "image_data": [], "audio_data": None, "lora_path": None, "top_logprobs_num": 0,
        "logprob_start_len": -1, "return_logprob": True, "text": None,
    }  # fmt: skip
    sampling = {**EIGHT, "stop": None, "top_k": -1, "regex": None, "custom_params": None, "skip_special_tokens": False}
    async with serve(worker) as http:
        answer = await http.post("/generate", {"input_ids": [4], "sampling_params": sampling} | neutral)
    assert answer.json()["output_ids"] == [5, 6, 7]


async def test_a_client_that_hangs_up_ends_its_requests(serve: Serve, worker: FakeWorker) -> None:
    worker.gate.clear()
    async with serve(worker) as http:
        for stream in (False, True):
            body = {"input_ids": [4], "sampling_params": {"max_new_tokens": 20}, "stream": stream}
            calling = asyncio.create_task(http.post("/generate", body))
            await worker.until(1)
            calling.cancel()
            await worker.until(0)
    assert len(worker.hung_up) == 2


async def test_requests_are_aborted_by_name_and_all_at_once(serve: Serve, worker: FakeWorker) -> None:
    worker.free_tokens = 1
    worker.gate.clear()
    async with serve(worker) as http:
        for abort in ({"rid": "a"}, {"abort_all": True}):
            body = {"input_ids": [4], "sampling_params": {"max_new_tokens": 20}, "rid": "a", "return_logprob": True}
            calling = asyncio.create_task(http.post("/generate", body))
            await worker.until(1)
            assert (await http.post("/abort_request", abort)).status_code == 200
            answer = (await calling).json()
            assert answer["meta_info"]["finish_reason"]["type"] == "abort"
            assert answer["output_ids"] in ([], [5])


async def test_an_abort_without_a_name_aborts_nothing(serve: Serve, worker: FakeWorker) -> None:
    worker.gate.clear()
    async with serve(worker) as http:
        calling = asyncio.create_task(http.post("/generate", {"input_ids": [4], "sampling_params": EIGHT}))
        await worker.until(1)
        for body in ({}, {"rid": ""}, {"rid": None, "abort_all": False}):
            assert (await http.post("/abort_request", body)).status_code == 200
        worker.gate.set()
        assert (await calling).json()["meta_info"]["finish_reason"]["type"] == "length"


async def test_generation_pauses_and_continues_where_it_was(serve: Serve, worker: FakeWorker) -> None:
    worker.free_tokens = 2
    worker.gate.clear()
    async with serve(worker) as http:
        body = {"input_ids": [4], "sampling_params": {"max_new_tokens": 6}}
        calling = asyncio.create_task(http.post("/generate", body))
        await worker.until(1)
        assert (await http.post("/pause_generation", {"mode": "retract"})).status_code == 200
        await worker.until(0)
        later = asyncio.create_task(http.post("/generate", body))
        loads: dict[str, int] = {}
        while loads.get("num_waiting_reqs") != 2:
            loads = (await http.client.get("/v1/loads")).json()["loads"][0]
        assert loads["num_running_reqs"] == 0
        worker.gate.set()
        assert (await http.post("/continue_generation", {})).status_code == 200
        assert [(await call).json()["output_ids"] for call in (calling, later)] == [[5, 6, 7, 8, 9, 10]] * 2
    assert len(worker.prompts) == 3


async def test_pausing_aborts_unless_told_otherwise(serve: Serve, worker: FakeWorker) -> None:
    worker.gate.clear()
    async with serve(worker) as http:
        calling = asyncio.create_task(http.post("/generate", {"input_ids": [4], "sampling_params": EIGHT}))
        await worker.until(1)
        await http.post("/pause_generation", {})
        assert (await calling).json()["meta_info"]["finish_reason"]["type"] == "abort"


async def test_weights_are_updated_from_a_directory(serve: Serve, worker: FakeWorker) -> None:
    async with serve(worker) as http:
        for weight_version, version in (
            (None, 1), ("7", 7), (8, 8), ("step-12", 12), ("global_step_0013", 13), ("v14", 14),
        ):  # fmt: skip
            body = {"model_path": "file:///weights", "weight_version": weight_version, "flush_cache": False}
            answer = await http.post("/update_weights_from_disk", body)
            assert answer.status_code != 200 or answer.json()["success"]
            assert (await http.client.get("/get_weight_version")).json()["weight_version"] in {"0", str(version)}
        for name in ("step", "-15", "1.5", "step-1.5", "run2-step-15", "step-15-final", "step--", "15a", "", "é15"):
            refused = await http.refused("/update_weights_from_disk", {"model_path": "x", "weight_version": name})
            assert refused["param"] == "weight_version", name
        assert (await http.refused("/update_weights_from_disk", {}))["param"] == "model_path"


async def test_what_is_served_is_told(serve: Serve, worker: FakeWorker) -> None:
    async with serve(worker) as http:
        info = (await http.client.get("/server_info")).json()
        assert (info["model_path"], info["vocab_size"], info["num_workers"]) == ("fake", 100, 1)
        assert (await http.client.get("/get_model_info")).json()["is_generation"]
        assert (await http.client.get("/flush_cache")).status_code == 200
        missing = await http.client.get("/nothing")
        assert missing.status_code == 404
        assert "/nothing" in missing.json()["error"]["message"]


async def test_without_workers_the_server_is_not_healthy(serve: Serve) -> None:
    async with serve() as http:
        assert (await http.client.get("/health")).status_code == 503


async def test_a_trainer_that_asks_for_workers_is_sent_to_the_gateway(serve: Serve, worker: FakeWorker) -> None:
    async with serve(worker) as http:
        answer = (await http.client.get("/workers")).json()
    assert answer["total"] == 1
    [one] = answer["workers"]
    assert (one["url"], one["is_healthy"]) == (f"http://{http.address}", True)


async def test_the_gateway_may_be_registered_as_a_worker_and_nothing_else(serve: Serve, worker: FakeWorker) -> None:
    async with serve(worker) as http:
        here = {"url": f"http://{http.address}", "worker_type": "regular"}
        assert (await http.post("/workers", here)).json()["url"] == here["url"]
        assert (await http.refused("/workers", here | {"url": "http://127.0.0.1:9"}))["param"] == "url"
        assert (await http.refused("/workers", here | {"worker_type": "prefill"}))["param"] == "worker_type"
