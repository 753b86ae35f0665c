"""Run the examples against a real gateway."""

import asyncio
import math
import runpy
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.integration.gateway.thread import endpoint

EXAMPLES = Path(__file__).parents[3] / "examples"
VOCAB = 40
pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of Transformers


def test_a_loop_of_ones_own_publishes_what_it_learned() -> None:
    train = runpy.run_path(str(EXAMPLES / "01_own_loop/own_loop.py"))["train"]
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True,
    )  # fmt: skip
    policy: Any = cast(Any, LlamaForCausalLM)(config)
    before = policy.model.embed_tokens.weight.detach().clone()
    with endpoint(vocab_size=VOCAB) as served:
        means = asyncio.run(train(served.address, policy, steps=2, learning_rate=1e-3))
        assert all(fake.updates == [1, 2] for fake in served.workers)
        assert sum(len(fake.prompts) for fake in served.workers) == 2 * 4 * 8
    assert len(means) == 2
    assert all(math.isfinite(mean) and 0 < mean <= 1 for mean in means)
    assert torch.isfinite(policy.model.embed_tokens.weight).all()
    assert before.shape == policy.model.embed_tokens.weight.shape
