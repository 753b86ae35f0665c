"""A step of learning on a tiny random Llama: what moves, and what is published of it."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from countdown.grpo import TrimmingTrainer, arguments
from countdown.vocabulary import EOS_ID, VOCABULARY_SIZE, encode, save_tokenizer
from word_problems.policy import HEAD, served_state, trainable
from word_problems.prompts import WordProblems
from word_problems.settings import RealSettings
from word_problems.trainer import dataset, rewards

# Warnings that TRL and Transformers raise about their own code.
pytestmark = pytest.mark.filterwarnings("ignore")

LAYERS, TRAINED = 3, 1
SETTINGS = RealSettings(
    max_steps=1, prompts=2, samples=2, cap_tokens=8, learning_rate=0.01, trained_layers=TRAINED, drafter=""
)


@pytest.fixture(scope="module", name="checkpoint")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a Llama with random weights, whose head is its embedding, and a tokenizer of words."""
    directory = tmp_path_factory.mktemp("policy")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=True,
        eos_token_id=EOS_ID,
    )
    LlamaForCausalLM(config).save_pretrained(directory)  # type: ignore[no-untyped-call,unused-ignore]
    save_tokenizer(directory)
    return directory


def rollouts(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
    """Answer each prompt, the first rightly."""
    right = trainer.train_dataset[0]["problem"]
    answers = [json.loads(right)["answer"] % 100, 3, 5, 7]
    ids = [[*encode(f"Answer : {answer}"), EOS_ID] for answer in answers]
    return {
        "prompt_ids": [[1, 5, 6] for _ in prompts],
        "completion_ids": ids,
        "logprobs": [[-1.0] * len(one) for one in ids],
        "finish_reason": ["stop", "stop", "length", "stop"],
    }


def test_the_upper_layers_learn_and_nothing_else(checkpoint: Path, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    policy = trainable(checkpoint, layers=TRAINED)
    before = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    trainer = TrimmingTrainer(
        model=policy,
        processing_class=tokenizer,
        args=arguments(SETTINGS, str(tmp_path)),
        train_dataset=dataset(WordProblems(settings=SETTINGS, tokenizer=tokenizer)),
        reward_funcs=rewards,
        rollout_func=rollouts,
    )
    trainer.train()
    moved = {name for name, tensor in policy.state_dict().items() if not torch.equal(tensor, before[name])}
    assert moved
    assert all(name.startswith(f"model.layers.{LAYERS - 1}.") for name in moved)
    assert trainer.state.log_history[0]["reward"] > 0


def test_the_whole_checkpoint_is_published(checkpoint: Path) -> None:
    policy = trainable(checkpoint, layers=TRAINED)
    published = served_state(policy.state_dict())
    assert HEAD in policy.state_dict()
    assert published.keys() == load_file(checkpoint / "model.safetensors").keys()


def test_embedding_head_and_lower_layers_are_frozen(checkpoint: Path) -> None:
    policy = trainable(checkpoint, layers=2)
    learning = {name for name, parameter in policy.named_parameters() if parameter.requires_grad}
    assert {name.split(".")[2] for name in learning} == {"1", "2"}
    assert policy.dtype == torch.float32


def test_rewards_know_the_problem_and_how_a_response_ended() -> None:
    problem = WordProblems(settings=replace(SETTINGS, prompts=1), tokenizer=None).problems(0)[0]
    right = [{"role": "assistant", "content": f"Answer: {problem.answer}"}]
    found = rewards(
        completions=[right, right, [{"role": "assistant", "content": "None."}]],
        problem=[json.dumps(asdict(problem))] * 3,
        finish_reason=["stop", "length", "stop"],
    )
    assert found == [1.0, 0.0, 0.0]
