"""Losses of the own loop: baselines, ratios and masks, against sums made by hand."""

import pytest
import torch

from tlt_bench.curves.kind import Kind
from tlt_bench.curves.loss import CLIPPED, TRUNCATED, Step, advantages, loss_of

REWARDS_B = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
OWN = [kind for kind in Kind if kind is not Kind.GRPO]


def step(logprobs: list[list[float]], engine: list[list[float]], mask: list[list[bool]]) -> Step:
    return Step(
        logprobs=torch.tensor(logprobs, requires_grad=True),
        engine=torch.tensor(engine),
        mask=torch.tensor(mask),
        rewards=torch.tensor([1.0, 0.0]),
        samples=2,
    )


def gradients(kind: Kind, of: Step) -> list[list[float]]:
    torch.autograd.backward(loss_of(kind, of))
    assert of.logprobs.grad is not None
    found: list[list[float]] = of.logprobs.grad.tolist()
    return found


def test_the_baseline_is_the_mean_of_the_others() -> None:
    assert advantages(Kind.RLOO, REWARDS_B, 3).tolist() == pytest.approx([1.0, -0.5, -0.5, 0.5, 0.5, -1.0])


@pytest.mark.parametrize("kind", OWN)
def test_advantages_sum_to_zero_over_the_batch(kind: Kind) -> None:
    assert float(advantages(kind, REWARDS_B, 3).sum()) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("kind", OWN)
def test_equal_rewards_teach_nothing(kind: Kind) -> None:
    assert not advantages(kind, torch.ones(6), 3).any()


@pytest.mark.parametrize("kind", OWN)
def test_only_sampled_tokens_learn_and_better_responses_become_likelier(kind: Kind) -> None:
    same = [[-1.0, -2.0], [-3.0, -0.5]]
    found = gradients(kind, step(same, same, [[True, False], [True, True]]))
    assert found[0][1] == 0.0
    assert found[0][0] < 0 < min(found[1])


def test_a_token_that_became_likelier_counts_more_up_to_a_limit() -> None:
    every = [[True, True], [True, True]]
    engine = [[-2.0, -2.0], [-2.0, -2.0]]
    found = gradients(Kind.ASYNC, step([[-2.0, -1.5], [-2.0, 0.0]], engine, every))
    assert found[0][1] / found[0][0] == pytest.approx(float(torch.tensor(0.5).exp()))
    assert found[1][1] / found[1][0] == pytest.approx(TRUNCATED)


def test_a_response_that_is_far_from_the_sampling_policy_does_not_learn() -> None:
    engine = [[-2.0], [-2.0]]
    near = gradients(Kind.GSPO, step([[-2.0 + CLIPPED / 2], [-2.0]], engine, [[True], [True]]))
    far = gradients(Kind.GSPO, step([[-2.0 + 2 * CLIPPED], [-2.0]], engine, [[True], [True]]))
    assert near[0][0] < 0
    assert far[0][0] == 0.0
