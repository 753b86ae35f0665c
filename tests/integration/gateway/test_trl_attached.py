"""TRL generates with the suite wherever it would with vLLM: tools, environments, RLOO."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from datasets import Dataset
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_config import RLOOConfig
from trl.trainer.rloo_trainer import RLOOTrainer

from tests.integration.gateway.library import Library, look
from tests.integration.gateway.small_policy import VOCAB, chat_tokenizer, small_model, word_tokenizer
from tests.integration.gateway.thread import Endpoint, endpoint
from tlt_common.errors import InvalidRequestError
from tlt_common.integrations.trl import Rollout, TltRollouts

# Warnings that TRL and Transformers raise about their own code.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def served() -> Iterator[Endpoint]:
    with endpoint(vocab_size=VOCAB) as running:
        yield running


@pytest.fixture(name="chat_tokenizer")
def tokenizer_with_tools() -> Any:
    return chat_tokenizer()


def settings(directory: Path, **changes: Any) -> dict[str, Any]:
    return {
        "output_dir": str(directory), "per_device_train_batch_size": 4, "num_generations": 2, "max_steps": 2,
        "max_completion_length": 10, "learning_rate": 0.1, "use_cpu": True, "bf16": False, "report_to": [],
        "save_strategy": "no", "disable_tqdm": True, "logging_steps": 1, "gradient_checkpointing": False,
    } | changes  # fmt: skip


def sums(completion_ids: list[list[int]], **_: Any) -> list[float | None]:
    return [float(sum(ids) + index) for index, ids in enumerate(completion_ids)]


def conversations() -> Dataset:
    return Dataset.from_dict({"prompt": [[{"role": "user", "content": f"w{word}"}] for word in (10, 11, 12, 13)]})


class Kept(GRPOTrainer):
    """Keeps what it learned from."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.learned: list[dict[str, Any]] = []

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        self.learned.append(inputs)
        return cast(Any, super())._compute_loss(model, inputs)


def trained(served: Endpoint, tokenizer: Any, directory: Path, **parts: Any) -> tuple[Any, list[Rollout]]:
    taken: list[Rollout] = []
    rollouts = TltRollouts(served.address, on_rollout=taken.append)
    args = GRPOConfig(**settings(directory, max_tool_calling_iterations=1))
    model = small_model()
    model.generation_config.eos_token_id = [1, 9]
    trainer = Kept(
        model=model, reward_funcs=[cast(Any, sums)], args=args, processing_class=tokenizer,
        train_dataset=conversations(), **parts,
    )  # fmt: skip
    rollouts.attach(trainer)
    trainer.train()
    rollouts.close()
    return trainer, taken


def test_what_tools_return_is_generated_from_and_masked(served: Endpoint, chat_tokenizer: Any, tmp_path: Path) -> None:
    trainer, taken = trained(served, chat_tokenizer, tmp_path, tools=[look])
    first, after_tool = taken[:2]
    assert first.policy_version == after_tool.policy_version == 1
    assert [rollout.policy_version for rollout in taken] == [1, 1, 2, 2]
    for before, prompt in zip(first.prompts, after_tool.prompts, strict=True):
        assert prompt[: len(before)] == before
        assert prompt[-3:] == (20, 7, 5)  # the tool's answer, and the beginning of the next turn
    for inputs in trainer.learned:
        ids, mask = inputs["completion_ids"], inputs["tool_mask"]
        assert ids.tolist() == [[6, 7, 8, 9, 20, 7, 5, 6, 7, 8]] * len(ids)
        assert mask.tolist() == [[1, 1, 1, 1, 0, 0, 0, 1, 1, 1]] * len(ids)
    assert trainer.state.log_history[0]["tools/call_frequency"] == 1.0
    assert trainer.state.log_history[0]["tools/failure_frequency"] == 0.0
    turns = [prompt for worker in served.workers for prompt in worker.prompts]
    begun = [prompt.session_id for prompt in turns if len(prompt.token_ids) == 2]
    continued = [prompt.session_id for prompt in turns if len(prompt.token_ids) > 2]
    assert len(begun) == len(set(begun)) == 8  # two steps of four responses
    assert sorted(continued) == sorted(begun), "turns of a conversation are a session"


def test_environments_reward_what_was_done_in_them(served: Endpoint, chat_tokenizer: Any, tmp_path: Path) -> None:
    trainer, taken = trained(served, chat_tokenizer, tmp_path, environment_factory=Library)
    assert all(30 in prompt for prompt in taken[0].prompts)
    assert trainer.state.log_history[0]["rewards/Library/mean"] == 1.0


def test_rloo_learns_from_the_suites_rollouts(served: Endpoint, tmp_path: Path) -> None:
    taken: list[Rollout] = []
    rollouts = TltRollouts(served.address, on_rollout=taken.append)
    model = small_model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    trainer = RLOOTrainer(
        model=model, reward_funcs=[cast(Any, sums)], args=RLOOConfig(**settings(tmp_path, beta=0.0)),
        processing_class=word_tokenizer(), train_dataset=Dataset.from_dict({"prompt": ["w3", "w5", "w7", "w9"]}),
    )  # fmt: skip
    rollouts.attach(trainer)
    trainer.train()
    rollouts.close()
    assert [(rollout.step, rollout.policy_version) for rollout in taken] == [(0, 1), (1, 2)]
    for rollout in taken:
        for prompt, response in zip(rollout.prompts, rollout.responses, strict=True):
            assert response.token_ids[0] == (prompt[-1] + 1) % VOCAB
    assert served.workers[0].updates == [1, 2]
    assert not torch.equal(model.state_dict()["model.norm.weight"], before["model.norm.weight"])


def test_tools_with_a_rollout_function_are_refused(served: Endpoint, chat_tokenizer: Any, tmp_path: Path) -> None:
    rollouts = TltRollouts(served.address)
    trainer = GRPOTrainer(
        model=small_model(), reward_funcs=[cast(Any, sums)], args=GRPOConfig(**settings(tmp_path)),
        processing_class=chat_tokenizer, train_dataset=conversations(), tools=[look], rollout_func=rollouts,
    )  # fmt: skip
    with pytest.raises(InvalidRequestError, match=r"accepted: TltRollouts.attach\(trainer\) instead of rollout_func"):
        trainer.train()
    rollouts.close()


def test_images_and_another_engine_are_refused(served: Endpoint, chat_tokenizer: Any, tmp_path: Path) -> None:
    rollouts = TltRollouts(served.address)
    trainer: Any = GRPOTrainer(
        model=small_model(), reward_funcs=[cast(Any, sums)], args=GRPOConfig(**settings(tmp_path)),
        processing_class=chat_tokenizer, train_dataset=conversations(),
    )  # fmt: skip
    rollouts.attach(trainer)
    with pytest.raises(InvalidRequestError, match="prompts have images; only text is supported"):
        trainer.vllm_generation.generate([[3]], [["image"]], 1)
    trainer.vllm_generation = object()
    with pytest.raises(InvalidRequestError, match="use_vllm=False"):
        rollouts.attach(trainer)
    rollouts.close()
