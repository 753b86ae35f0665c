"""An RL loop of your own: publish weights, sample a batch, compute rewards, update the policy (REINFORCE by group)."""

import argparse
import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM

from tlt_suite import Client, SamplingParams, TokenChunk

PROMPTS, SAMPLES = 4, 8
SAMPLING = SamplingParams(max_new_tokens=32)


def reward(response: TokenChunk) -> float:
    """Share of distinct tokens: any function of a response can stand here."""
    return len(set(response.token_ids)) / len(response.token_ids)


def loss_of(policy: Any, prompt: Sequence[int], responses: Sequence[TokenChunk]) -> torch.Tensor:
    """Responses better than their group's mean become more probable."""
    rewards = torch.tensor([reward(response) for response in responses])
    advantages_B = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    rows = [torch.tensor([*prompt, *response.token_ids]) for response in responses]
    tokens_BT = pad_sequence(rows, batch_first=True)  # B responses, T tokens; padding on the right is masked below
    logprobs_BTV = policy(tokens_BT[:, :-1]).logits[:, len(prompt) - 1 :].float().log_softmax(-1)
    logprobs_BT = logprobs_BTV.gather(2, tokens_BT[:, len(prompt) :, None])[..., 0]
    lengths_B = torch.tensor([len(response.token_ids) for response in responses])
    mask_BT = torch.arange(logprobs_BT.shape[1]) < lengths_B[:, None]
    means_B: torch.Tensor = (logprobs_BT * mask_BT).sum(1) / lengths_B
    return -(advantages_B * means_B).mean()


async def train(endpoint: str, policy: Any, *, steps: int, learning_rate: float) -> list[float]:
    """Run the loop; return the mean reward of each step."""
    optimizer = torch.optim.AdamW(policy.parameters(), lr=learning_rate)
    means = []
    async with Client(endpoint) as client:
        info = await client.wait_ready(300.0)
        prompts = [[random.randrange(info.vocab_size) for _ in range(8)] for _ in range(PROMPTS)]
        for version in range(info.policy_version + 1, info.policy_version + 1 + steps):
            await client.publish_weights(version, policy.state_dict())
            groups = await client.batch(prompts, SAMPLES, SAMPLING, policy_version=version)
            for prompt, responses in zip(prompts, groups, strict=True):
                torch.autograd.backward(loss_of(policy, prompt, responses) / PROMPTS)
            optimizer.step()
            optimizer.zero_grad()
            means.append(sum(reward(one) for group in groups for one in group) / (PROMPTS * SAMPLES))
            print(f"version {version}: mean reward {means[-1]:.3f}", flush=True)
    return means


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--endpoint", default="127.0.0.1:7700", help="host:port that `tlt up` prints.")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="For a large model, about 1e-6.")
    options = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    rewards = asyncio.run(train(options.endpoint, model, steps=options.steps, learning_rate=options.learning_rate))
    assert rewards[-1] > rewards[0], f"the reward fell from {rewards[0]:.3f} to {rewards[-1]:.3f}"  # noqa: S101
    print(f"result: mean reward {rewards[0]:.3f} -> {rewards[-1]:.3f} in {len(rewards)} steps")
