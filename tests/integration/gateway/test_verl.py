"""What verl calls of a rollout server, against a real gateway."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import gateway
from tlt_common.client import Client
from tlt_common.errors import InvalidRequestError, UnavailableError, WeightsError
from tlt_common.integrations.connection import Connection
from tlt_common.integrations.verl.server import TltServer
from tlt_common.integrations.weights import WeightsSender
from tlt_gateway.config import GatewayConfig

SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "repetition_penalty": 1.0, "logprobs": True}


class Tensor:
    """A tensor as verl yields it, over numpy."""

    def __init__(self, value: float) -> None:
        self._value = value

    def detach(self) -> "Tensor":
        return self

    def cpu(self) -> Any:
        return np.full((2,), self._value, dtype=np.float32)


@asynccontextmanager
async def serving(worker: FakeWorker) -> AsyncIterator[tuple[TltServer, Connection]]:
    async with gateway(GatewayConfig(workers=(worker.address,))) as address:
        connection = Connection.of({"endpoint": address, "wait_s": 10}, key="engine_kwargs.tlt")
        server = TltServer(connection, prompt_length=8, response_length=4)
        try:
            assert await server.launch() == address
            yield server, connection
        finally:
            await server.aclose()


async def updated(server: TltServer, sender: WeightsSender, step: int) -> int:
    """Do what verl's CheckpointEngineManager does."""
    await server.abort_all_requests(reject_request=False)
    await server.release_kv_cache()
    await server.execute_checkpoint_engine("prepare")
    await server.execute_checkpoint_engine("init_process_group")
    version, _ = await asyncio.gather(sender.send([("w", Tensor(step))], step), server.update_weights(step))
    await server.execute_checkpoint_engine("finalize")
    await server.resume_kv_cache()
    await server.resume_generation()
    return version


async def test_responses_have_the_form_of_verl(worker: FakeWorker) -> None:
    async with serving(worker) as (server, _):
        whole = await server.generate("a", [3, 10], dict(SAMPLING), session_id="conversation")
        bare = await server.generate("b", [3, 12], {"max_tokens": 2})
    assert (whole["token_ids"], whole["stop_reason"]) == ([11, 12, 13, 14], "completed")
    assert whole["log_probs"] == pytest.approx([-11 / 128, -12 / 128, -13 / 128, -14 / 128])
    assert {whole["extra_fields"][f"{which}global_steps"] for which in ("", "min_", "max_")} == {0}
    assert whole["extra_fields"].keys() >= {"num_cached_tokens", "spec_num_verify_steps"}
    assert (bare["token_ids"], bare["log_probs"]) == ([13, 14], None)
    assert [prompt.session_id for prompt in worker.prompts] == ["conversation", ""]


async def test_responses_end_at_the_end_tokens_of_verls_tokenizer(worker: FakeWorker) -> None:
    async with gateway(GatewayConfig(workers=(worker.address,))) as address:
        connection = Connection.of({"endpoint": address, "wait_s": 10}, key="engine_kwargs.tlt")
        server = TltServer(connection, prompt_length=8, response_length=4, end_token_ids=(12,))
        ended = await server.generate("a", [3, 10], dict(SAMPLING))
        ignoring = await server.generate("b", [3, 10], {**SAMPLING, "ignore_eos": True})
        await server.aclose()
    assert (ended["token_ids"], ignoring["token_ids"]) == ([11, 12], [11, 12, 13, 14])


async def test_an_update_ends_responses_with_the_tokens_they_have(worker: FakeWorker) -> None:
    worker.free_tokens = 2
    async with serving(worker) as (server, connection):
        sender = WeightsSender(connection)
        assert await updated(server, sender, 0) == 1  # version 0 is what the engines started with
        worker.gate.clear()
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(server.generate("a", [10], dict(SAMPLING)))
            await worker.until(running=1)
            assert await updated(server, sender, 1) == 2
        worker.gate.set()
        part = first.result()
        rest = await server.generate(
            "b", [10, *part["token_ids"]], SAMPLING | {"max_tokens": 4 - len(part["token_ids"])}
        )
    assert part["stop_reason"] == "aborted"
    assert len(part["log_probs"]) == len(part["token_ids"])
    assert part["token_ids"] + rest["token_ids"] == [11, 12, 13, 14]
    assert [one["extra_fields"]["global_steps"] for one in (part, rest)] == [0, 1]
    assert worker.updates == [1, 2]


async def test_requests_wait_for_the_end_of_an_update_or_are_returned(worker: FakeWorker) -> None:
    async with serving(worker) as (server, _):
        await server.abort_all_requests(reject_request=True)
        returned = await server.generate("a", [10], dict(SAMPLING))
        await server.abort_all_requests(reject_request=False)
        async with asyncio.TaskGroup() as tasks:
            waits = tasks.create_task(server.generate("b", [10], dict(SAMPLING)))
            await asyncio.sleep(0)
            assert not waits.done()
            await server.resume_generation()
    assert (returned["token_ids"], returned["stop_reason"]) == ([], "aborted")
    assert waits.result()["token_ids"] == [11, 12, 13, 14]


async def test_a_trainer_that_is_started_again_goes_on_above_the_versions_served(worker: FakeWorker) -> None:
    async with serving(worker) as (server, connection):
        async with Client(connection.endpoint) as client:
            await client.publish_weights(9, {"w": Tensor(0).cpu()})
        assert await updated(server, WeightsSender(connection), 4) == 10
        response = await server.generate("a", [10], dict(SAMPLING))
    assert response["extra_fields"]["global_steps"] == 4


async def test_weights_that_do_not_fit_leave_the_step_as_it_was(worker: FakeWorker) -> None:
    async with serving(worker) as (server, connection):
        sender = WeightsSender(connection)
        await updated(server, sender, 3)
        worker.stage_error = WeightsError("shape of w")
        with pytest.raises(WeightsError, match="shape of w"):
            await sender.send([("w", Tensor(4))], 4)
        response = await server.generate("a", [10], dict(SAMPLING))
    assert response["extra_fields"]["global_steps"] == 3


@pytest.mark.parametrize(("prompt", "params", "count"), [
    ([5] * 8, {}, 4),  # the whole of response_length
    ([5] * 10, {}, 2),  # a later turn: what the width leaves
    ([5] * 12, {}, 0),
    ([5] * 10, {"max_tokens": 4}, 4),  # what verl asks for itself
    ([5] * 126, {"max_tokens": 4}, 2),  # the context's end
])  # fmt: skip
async def test_lengths_are_those_of_verls_servers(
    worker: FakeWorker, prompt: list[int], params: dict[str, Any], count: int
) -> None:
    async with serving(worker) as (server, _):
        response = await server.generate("a", prompt, params)
    assert (len(response["token_ids"]), response["stop_reason"]) == (count, "completed")


async def test_log_probabilities_of_a_prompt_have_verls_form(worker: FakeWorker) -> None:
    async with serving(worker) as (server, _):
        asked = await server.generate("a", [5, 6, 9], {"max_tokens": 1, "prompt_logprobs": 0, "temperature": 1.0})
        unasked = await server.generate("b", [5, 6, 9], {"max_tokens": 1, "prompt_logprobs": None})
    extra = asked["extra_fields"]
    # A row for each token: the next one, as in verl's `extract_prompt_logprobs`.
    assert extra.pop("prompt_ids") == [[6], [9], [0]]
    assert extra.pop("prompt_logprobs") == [[-6 / 128], [-9 / 128], [0.0]]
    assert extra.keys() == unasked["extra_fields"].keys()


@pytest.mark.parametrize(("change", "message"), [
    ({"image_data": [1]}, "image_data"),
    ({"sampling_params": {"bad_words": ["x"]}}, "bad_words is"),
    ({"sampling_params": {"prompt_logprobs": 1}}, "prompt_logprobs is 1; accepted: 0"),
    ({"sampling_params": {"logprobs": 5}}, "logprobs is 5"),
    ({"sampling_params": {"beams": 2}}, "beams is not"),
    ({"sampling_params": {"top_p": 2.0}}, "top_p"),
])  # fmt: skip
async def test_what_has_no_effect_is_refused_by_name(worker: FakeWorker, change: dict[str, Any], message: str) -> None:
    async with serving(worker) as (server, _):
        with pytest.raises(InvalidRequestError, match=message):
            await server.generate(**{"request_id": "a", "prompt_ids": [1], "sampling_params": {}} | change)
        with pytest.raises(InvalidRequestError, match="profile"):
            await server.start_profile()


async def test_a_server_without_a_gateway_does_not_start() -> None:
    server = TltServer(
        Connection.of({"endpoint": "127.0.0.1:1", "wait_s": 0.2}, key="engine_kwargs.tlt"),
        prompt_length=8,
        response_length=4,
    )
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1"):
        await server.launch()
    await server.aclose()
