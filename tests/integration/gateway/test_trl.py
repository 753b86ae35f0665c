import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_config import RLOOConfig
from trl.trainer.rloo_trainer import RLOOTrainer

from tests.integration.gateway.small_policy import VOCAB, small_model, word_tokenizer
from tests.integration.gateway.thread import Endpoint, endpoint
from tlt_common.client import BlockingClient, Sample, TokenChunk
from tlt_common.domain.fleet import MEMORY_TAGS
from tlt_common.domain.request_ids import request_of
from tlt_common.errors import InvalidRequestError, StaleVersionError
from tlt_common.integrations.trl import Rollout, TltRollouts

# Warnings that TRL and Transformers raise about their own code.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def served() -> Iterator[Endpoint]:
    with endpoint(vocab_size=VOCAB) as running:
        yield running


@pytest.fixture
def tokenizer() -> Any:
    return word_tokenizer()


@pytest.fixture
def model() -> Any:
    return small_model()


def config(directory: Path, kind: Any = GRPOConfig, **changes: Any) -> Any:
    settings: dict[str, Any] = {
        "output_dir": str(directory), "per_device_train_batch_size": 4, "num_generations": 2, "max_steps": 2,
        "max_completion_length": 6, "learning_rate": 0.1, "use_cpu": True, "bf16": False, "report_to": [],
        "save_strategy": "no", "disable_tqdm": True, "logging_steps": 1, "gradient_checkpointing": False,
    }  # fmt: skip
    return kind(**settings | changes)


class Rewards:
    """Reward large tokens; record what TRL passes to reward functions."""

    __name__ = "rewards"

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def __call__(self, completion_ids: list[list[int]], **columns: Any) -> list[float]:
        self.seen.append({"completion_ids": completion_ids, **columns})
        return [sum(ids) + index for index, ids in enumerate(completion_ids)]


def trainer_of(model: Any, tokenizer: Any, rewards: Rewards, rollouts: TltRollouts, args: Any) -> Any:
    data = Dataset.from_dict({"prompt": ["w3 w10", "w5 w20", "w7", "w9 w30"], "column": [1, 2, 3, 4]})
    return GRPOTrainer(
        model=model, reward_funcs=[cast(Any, rewards)], args=args, train_dataset=data, processing_class=tokenizer,
        rollout_func=rollouts,
    )  # fmt: skip


def test_a_trainer_learns_from_the_suites_rollouts(
    served: Endpoint, model: Any, tokenizer: Any, tmp_path: Path
) -> None:
    taken: list[Rollout] = []
    finished: list[Sample] = []
    rewards = Rewards()
    answer = partial(BlockingClient.batch, on_progress=finished.append)
    rollouts = TltRollouts(served.address, answer=answer, on_rollout=taken.append)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    trainer = trainer_of(model, tokenizer, rewards, rollouts, config(tmp_path))
    trainer.train()
    rollouts.close()

    assert [(rollout.step, rollout.policy_version) for rollout in taken] == [(0, 1), (1, 2)]
    assert all(rollout.publish_s > 0 and rollout.rollout_s > 0 for rollout in taken)
    assert len(finished) == 8
    for fake in served.workers:
        assert fake.updates == [1, 2]
        assert fake.weights.keys() == before.keys() - {"lm_head.weight"}  # tied: sent once
        at_step_1 = torch.frombuffer(bytearray(fake.weights["model.norm.weight"]), dtype=torch.float32)
        assert not torch.equal(at_step_1, before["model.norm.weight"])
    for rollout in taken:
        for prompt, response in zip(rollout.prompts, rollout.responses, strict=True):
            assert response.token_ids[0] == (prompt[-1] + 1) % VOCAB
            assert set(response.policy_versions) == {rollout.policy_version}
    for seen, rollout in zip(rewards.seen, taken, strict=True):
        assert seen["completion_ids"] == [list(response.token_ids) for response in rollout.responses]
        assert seen["finish_reason"] == ["length"] * 4
        assert seen["column"]
    prompts = [prompt for fake in served.workers for prompt in fake.prompts]
    assert {(p.sampling.temperature, p.sampling.max_new_tokens, p.sampling.stop_token_ids) for p in prompts} == {
        (1.0, 6, (1,))
    }
    assert sorted(request_of(prompt.request_id).rpartition("/")[2] for prompt in prompts) == ["0"] * 4 + ["1"] * 4


def test_a_colocated_trainer_has_the_devices_while_it_learns(
    served: Endpoint, model: Any, tokenizer: Any, tmp_path: Path
) -> None:
    rewards = Rewards()
    for fake in served.workers:
        fake.releasable = True
        served.loop.call_soon_threadsafe(fake.watchers.changed)
    rollouts = TltRollouts(served.address, colocated=True)
    held: list[set[str]] = []

    def learning(completion_ids: list[list[int]], **columns: Any) -> list[float]:
        held.extend(set(fake.released) for fake in served.workers)
        return rewards(completion_ids, **columns)

    trainer = trainer_of(model, tokenizer, cast(Any, learning), rollouts, config(tmp_path))
    trainer.train()
    assert held == [set(MEMORY_TAGS)] * 4
    assert all(fake.updates == [1, 2] for fake in served.workers)
    rollouts.close()
    assert not any(fake.released for fake in served.workers)


def test_what_is_published_may_be_an_image_of_the_weights(
    served: Endpoint, model: Any, tokenizer: Any, tmp_path: Path
) -> None:
    rollouts = TltRollouts(served.address, export=lambda state: {"half": state["model.norm.weight"].bfloat16()})
    trainer_of(model, tokenizer, Rewards(), rollouts, config(tmp_path, max_steps=1)).train()
    rollouts.close()
    assert served.workers[0].weights == {"half": torch.ones(16).bfloat16().view(torch.uint8).numpy().tobytes()}


def test_counting_goes_on_where_an_earlier_run_ended(
    served: Endpoint, model: Any, tokenizer: Any, tmp_path: Path
) -> None:
    versions: list[int] = []
    for _ in range(2):
        rollouts = TltRollouts(served.address, on_rollout=lambda rollout: versions.append(rollout.policy_version))
        trainer_of(model, tokenizer, Rewards(), rollouts, config(tmp_path)).train()
        rollouts.close()
    assert versions == [1, 2, 3, 4]


def test_weights_are_published_only_when_the_step_moved(
    served: Endpoint, model: Any, tokenizer: Any, tmp_path: Path
) -> None:
    rollouts = TltRollouts(served.address)
    args = config(tmp_path, per_device_train_batch_size=2, gradient_accumulation_steps=2, steps_per_generation=1)
    trainer_of(model, tokenizer, Rewards(), rollouts, args).train()
    rollouts.close()
    assert served.workers[0].updates == [1, 2]
    assert sum(len(fake.prompts) for fake in served.workers) == 8


def test_a_seed_gives_every_response_of_a_run_its_own_and_repeats_them(
    served: Endpoint, model: Any, tokenizer: Any, tmp_path: Path
) -> None:
    runs: list[list[int | None]] = []
    for _ in range(2):
        for fake in served.workers:
            fake.prompts.clear()
        rollouts = TltRollouts(served.address, seed=3)
        trainer_of(model, tokenizer, Rewards(), rollouts, config(tmp_path)).train()
        rollouts.close()
        runs.append(sorted((p.sampling.seed for fake in served.workers for p in fake.prompts), key=str))
    assert runs[0] == runs[1]
    assert None not in runs[0]
    assert len(set(runs[0])) == len(runs[0]) == 8


def test_the_engines_logprobs_correct_the_loss_when_asked(
    served: Endpoint, model: Any, tokenizer: Any, tmp_path: Path
) -> None:
    rollouts = TltRollouts(served.address)
    args = config(tmp_path, vllm_importance_sampling_mode="token_truncate")
    trainer = trainer_of(model, tokenizer, Rewards(), rollouts, args)
    rollouts.attach(trainer)
    trainer.train()
    rollouts.close()
    # The fake's logprob is -token / 128, the model's about log(1 / 40): the difference shows that TRL used ours.
    difference = trainer.state.log_history[0]["sampling/sampling_logp_difference/mean"]
    assert difference == pytest.approx(torch.log(torch.tensor(40.0)).item(), abs=0.4)


def test_a_second_publisher_is_found_out(served: Endpoint, model: Any, tokenizer: Any, tmp_path: Path) -> None:
    def before(client: BlockingClient, *asked: Any, policy_version: int) -> list[list[TokenChunk]]:
        client.publish_weights(7, {"w": torch.ones(1)})
        return client.batch(*asked, policy_version=policy_version)

    def during(client: BlockingClient, *asked: Any, policy_version: int) -> list[list[TokenChunk]]:
        client.publish_weights(policy_version + 1, {"w": torch.ones(1)})
        return client.batch(*asked)

    for answer, message in (
        (before, "1 was published, but is no longer served"),
        (during, r"\[9\], but 8 was published"),
    ):
        rollouts = TltRollouts(served.address, answer=answer)
        with pytest.raises(StaleVersionError, match=message):
            trainer_of(model, tokenizer, Rewards(), rollouts, config(tmp_path)).train()
        rollouts.close()


def base_of(model: Any, directory: Path) -> Path:
    model.save_pretrained(directory)
    return directory


@pytest.mark.parametrize("algorithm", ["grpo", "rloo"])
def test_of_a_model_with_an_adapter_only_that_is_published(
    served: Endpoint, model: Any, tokenizer: Any, tmp_path: Path, algorithm: str
) -> None:
    base = base_of(model, tmp_path / "base")
    taken: list[Rollout] = []
    rollouts = TltRollouts(served.address, on_rollout=taken.append)
    data = Dataset.from_dict({"prompt": ["w3 w10", "w5 w20", "w7", "w9 w30"], "column": [1, 2, 3, 4]})
    options: dict[str, Any] = {
        "model": str(base), "reward_funcs": [cast(Any, Rewards())], "train_dataset": data,
        "processing_class": tokenizer, "peft_config": LoraConfig(target_modules=["q_proj"], r=2, lora_alpha=4),
    }  # fmt: skip
    trainer: Any
    if algorithm == "grpo":
        trainer = GRPOTrainer(args=config(tmp_path), rollout_func=rollouts, **options)
    else:
        trainer = RLOOTrainer(args=config(tmp_path, kind=RLOOConfig), **options)
        rollouts.attach(trainer)
    trainer.train()
    rollouts.close()
    assert [rollout.policy_version for rollout in taken] == [1, 2]
    names = {name for name in trainer.model.state_dict() if ".lora_" in name}
    for fake in served.workers:
        assert fake.updates == [1, 2]
        sent = json.loads(fake.weights.pop("adapter_config.json"))
        assert (sent["r"], sent["lora_alpha"], sent["base_model_name_or_path"]) == (2, 4, str(base))
        assert fake.weights.keys() == {name.replace(".default", "") for name in names}
        assert any(any(data) for name, data in fake.weights.items() if "lora_B" in name), "it was trained"


def test_the_base_of_an_adapter_may_be_given(served: Endpoint, model: Any, tokenizer: Any, tmp_path: Path) -> None:
    base, exported = base_of(model, tmp_path / "base"), list[int]()

    def halved(state: Any) -> Any:
        exported.append(len(state))
        return {name: tensor.bfloat16() for name, tensor in state.items()}

    adapted = get_peft_model(model, LoraConfig(target_modules=["q_proj"], r=2))
    for said, field in ((None, "base"), (tmp_path / "none", "base"), (base, "")):
        rollouts = TltRollouts(served.address, export=halved, adapter_base=said)
        trainer = trainer_of(adapted, tokenizer, Rewards(), rollouts, config(tmp_path, max_steps=1))
        if field:
            with pytest.raises(InvalidRequestError) as refused:
                trainer.train()
            assert refused.value.field == field
        else:
            trainer.train()
        rollouts.close()
    assert exported == [4, 4, 4]
    assert served.workers[0].updates == [1]
