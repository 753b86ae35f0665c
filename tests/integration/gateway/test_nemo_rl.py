"""What NeMo-RL calls of a generation back end, against a real gateway."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from tests.fakes.nemo_rl import BatchedDataDict, Policy, config_of, refit_policy_generation, waited
from tests.integration.gateway.thread import Endpoint, endpoint
from tlt_common.client import Client
from tlt_common.errors import InvalidRequestError, UnavailableError, WeightsError
from tlt_common.integrations.nemo_rl import TltGeneration, TltWeightSynchronizer


@pytest.fixture
def served() -> Iterator[Endpoint]:
    with endpoint() as running:
        yield running


@pytest.fixture
def generation(served: Endpoint) -> Iterator[TltGeneration]:
    found = TltGeneration(None, config_of(served.address))
    yield found
    assert found.shutdown()
    assert found.shutdown()


def batch(*prompts: list[int]) -> BatchedDataDict:
    lengths = [len(prompt) for prompt in prompts]
    rows = [prompt + [0] * (max(lengths) - len(prompt)) for prompt in prompts]
    columns: dict[str, Any] = {"input_ids": torch.tensor(rows), "input_lengths": torch.tensor(lengths)}
    return BatchedDataDict(columns | {"stop_strings": [None] * len(prompts)})


def test_a_batch_is_answered_in_its_order(generation: TltGeneration, served: Endpoint) -> None:
    output = generation.generate(batch([3, 10], [3, 10], [20], [20]), greedy=False)
    assert output["output_ids"].tolist() == [[3, 10, 11, 12, 13, 14]] * 2 + [[20, 21, 22, 23, 24, 0]] * 2
    assert output["generation_lengths"].tolist() == [4] * 4
    assert output["unpadded_sequence_lengths"].tolist() == [6, 6, 5, 5]
    assert output["truncated"].all()
    assert output["logprobs"][0].tolist() == pytest.approx([0, 0, *(-token / 128 for token in (11, 12, 13, 14))])
    prompts = [prompt for worker in served.workers for prompt in worker.prompts]
    assert {prompt.sampling.temperature for prompt in prompts} == {1.0}
    generation.generate(batch([30]), greedy=True)
    assert 0.0 in {prompt.sampling.temperature for worker in served.workers for prompt in worker.prompts}


def test_rows_of_different_room_are_answered_together(generation: TltGeneration) -> None:
    long = [7] * 125 + [26]  # of a context of 128
    output = generation.generate(batch([10], long, [*long, 90, 91]))
    assert output["generation_lengths"].tolist() == [4, 2, 0]
    assert output["output_ids"][1, 126:128].tolist() == [27, 28]


def test_samples_of_a_prompt_reach_a_gateway_as_one(generation: TltGeneration, served: Endpoint) -> None:
    generation.generate(batch([3, 10], [3, 10]))
    names = {prompt.request_id.rpartition("/")[0] for worker in served.workers for prompt in worker.prompts}
    assert len(names) == 1


def test_single_rows_are_answered_in_any_event_loop(generation: TltGeneration) -> None:
    async def answered(prompt: list[int]) -> Any:
        return [(at, out["output_ids"].tolist()) async for at, out in generation.generate_async(batch(prompt))]

    assert asyncio.run(answered([10])) == [(0, [[10, 11, 12, 13, 14]])]
    assert asyncio.run(answered([20])) == [(0, [[20, 21, 22, 23, 24]])]  # an event loop of its own, as collectors have

    async def refused() -> None:
        await anext(generation.generate_async(batch([1], [2])))

    with pytest.raises(InvalidRequestError, match="input_ids has 2 rows; accepted: one"):
        asyncio.run(refused())


def test_a_cancelled_row_is_aborted_on_the_server(generation: TltGeneration, served: Endpoint) -> None:
    served.gate(open_=False)

    async def cancelled() -> None:
        async with Client(served.address) as client, asyncio.TaskGroup() as tasks:
            row = tasks.create_task(anext(generation.generate_async(batch([10]))))
            while not (await client.info()).running:
                pass
            row.cancel()
            while (await client.info()).running:
                pass

    asyncio.run(asyncio.wait_for(cancelled(), 20))
    served.gate(open_=True)


class Trained:
    """A policy's tensors, gathered by both workers at once."""

    def __init__(self) -> None:
        self.value, self.gathered = 0.0, 0

    def __call__(self) -> Iterator[tuple[str, torch.Tensor]]:
        self.gathered += 1
        yield "w", torch.full((2,), self.value)


def test_each_refit_has_the_next_version_on_all_workers(generation: TltGeneration, served: Endpoint) -> None:
    trained = Trained()
    policy = Policy(trained)
    generation.weight_synchronizer = TltWeightSynchronizer(policy, generation, wait=waited)
    generation.weight_synchronizer.init_communicator()
    assert generation.weight_synchronizer.is_stale
    for step in (1, 2):
        trained.value = float(step)
        assert refit_policy_generation(policy, generation) == {"policy_version": step}
        assert not generation.weight_synchronizer.is_stale
    assert trained.gathered == 4  # both workers take part each time, since they gather tensors together
    for worker in served.workers:
        assert worker.updates == [1, 2]
        assert np.frombuffer(worker.weights["w"], dtype=np.float32).tolist() == [2.0, 2.0]
    generation.weight_synchronizer.shutdown()


def test_weights_go_on_above_those_that_are_served(generation: TltGeneration, served: Endpoint) -> None:
    generation.generate(batch([10]))
    trained = Trained()
    for expected in (1, 2):  # a trainer that is started again
        synchronizer = TltWeightSynchronizer(Policy(trained), generation, wait=waited)
        synchronizer.init_communicator()
        assert synchronizer.sync_weights() == {"policy_version": expected}
    assert served.workers[0].updates == [1, 2]


def test_refused_weights_raise_in_the_trainer(generation: TltGeneration, served: Endpoint) -> None:
    synchronizer = TltWeightSynchronizer(Policy(Trained()), generation, wait=waited)
    synchronizer.init_communicator()
    served.workers[0].stage_error = WeightsError("tensor w: 2 values; the model has 3")
    with pytest.raises(WeightsError, match="the model has 3"):
        synchronizer.sync_weights()
    assert synchronizer.is_stale
    assert generation.policy_version() == 0


def test_running_responses_go_on_during_a_refit(generation: TltGeneration, served: Endpoint) -> None:
    for worker in served.workers:
        worker.free_tokens = 2
    served.gate(open_=False)
    outputs: list[Any] = []
    thread = threading.Thread(target=lambda: outputs.append(generation.generate(batch([10]))))
    thread.start()
    synchronizer = TltWeightSynchronizer(Policy(Trained()), generation, wait=waited)
    synchronizer.init_communicator()
    synchronizer.sync_weights()
    served.gate(open_=True)
    thread.join(20)
    assert outputs[0]["output_ids"].tolist() == [[10, 11, 12, 13, 14]]


def test_a_gateway_that_is_not_there_is_named() -> None:
    config = config_of("127.0.0.1:1")
    (options,) = config["refit_cfg"].values()
    options["wait_s"] = 0.2
    generation = TltGeneration(None, config)
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1"):
        generation.generate(batch([10]))
    assert generation.shutdown()
