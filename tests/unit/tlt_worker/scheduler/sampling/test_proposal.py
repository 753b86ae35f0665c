"""Draft inputs wide enough for every arm."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from tlt_common.domain.arm import OFF, Arm, block, chain, ngram, tree
from tlt_worker.scheduler.sampling.proposal import (
    ProposalLayout,
    keep_parents,
    keep_prompt_logits,
    sample_for_every_arm,
)

LOGITS = torch.tensor([[0.0, 3.0, 1.0, 2.0], [5.0, 0.0, 4.0, 1.0]])


def sample(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Stands for SGLang's: always draws token 2."""
    probs = torch.softmax(logits, -1)
    token = torch.full((len(logits), 1), 2)
    return probs, probs.gather(1, token), token


@pytest.mark.parametrize(
    ("arms", "rejects", "samples", "branches"),
    [
        ((OFF, chain(3), chain(7)), True, True, 0),
        ((chain(3), chain(3, sampled=False)), True, True, 1),
        ((chain(3), tree(3, 4, 8), tree(2, 2, 4)), True, True, 4),
        ((tree(2, 2, 4),), False, False, 2),
        ((chain(3),), False, False, 1),
        ((ngram(5),), False, False, 1),
        ((OFF, block(7), ngram(5)), True, False, 1),
    ],
)
def test_the_layout_holds_what_every_arm_needs(
    arms: tuple[Arm, ...], rejects: bool, samples: bool, branches: int
) -> None:
    layout = ProposalLayout.of(arms, rejects=rejects)
    assert (layout.samples, layout.branches, layout.width) == (samples, branches, samples + branches)


def test_an_arm_takes_its_columns() -> None:
    layout = ProposalLayout(samples=True, branches=2)
    probs, shares, tokens = layout.fill(sample, LOGITS)
    assert tokens.tolist() == [[2, 1, 3], [2, 0, 2]]
    assert probs is not None
    assert torch.equal(probs, torch.softmax(LOGITS, -1))
    assert torch.allclose(shares, torch.softmax(LOGITS, -1).gather(1, tokens))
    for arm, wanted in (
        (chain(3), [[2], [2]]),
        (chain(3, sampled=False), [[1], [0]]),
        (tree(2, 2, 4), [[1, 3], [0, 2]]),
    ):
        given = SimpleNamespace(topk_p=shares, topk_index=tokens)
        layout.narrow(given, arm)
        assert given.topk_index.tolist() == wanted
        assert given.topk_p.shape == given.topk_index.shape


def test_without_sampled_columns_the_best_come_first() -> None:
    layout = ProposalLayout(samples=False, branches=2)
    probs, shares, tokens = layout.fill(sample, LOGITS)
    assert probs is None
    given = SimpleNamespace(topk_p=shares, topk_index=tokens)
    layout.narrow(given, chain(3))
    assert given.topk_index.tolist() == [[1], [0]]


def test_columns_are_filled_between_rounds_only() -> None:
    layout = ProposalLayout(samples=True, branches=1)
    assert sample_for_every_arm(sample, LOGITS)[2].shape == (2, 1)
    with layout.proposing():
        assert sample_for_every_arm(sample, LOGITS)[2].tolist() == [[2, 1], [2, 0]]
    assert sample_for_every_arm(sample, LOGITS)[2].shape == (2, 1)


def test_logits_of_a_prompt_are_kept_until_they_are_proposed_from() -> None:
    layout = ProposalLayout(samples=True, branches=1)

    def renorm(logits: Tensor, info: float) -> Tensor:
        return logits + info

    assert torch.equal(keep_prompt_logits(renorm, LOGITS, 1.0), LOGITS + 1.0)
    assert layout.logits is None
    with layout.proposing():
        keep_prompt_logits(renorm, LOGITS, 1.0)
        assert layout.logits is LOGITS
    assert layout.logits is None


def test_a_node_is_kept_with_its_parent_though_both_score_the_same() -> None:
    seen: list[Tensor] = []

    def organize(score_list: list[Tensor], nodes: int) -> None:
        seen.append(torch.cat(score_list, dim=1).flatten(1).topk(nodes, dim=-1).indices.sort().values)

    sure = [
        torch.tensor([[[0.5, 0.5]]]),
        torch.tensor([[[0.5, 0.0], [0.5, 0.0]]]),
        torch.tensor([[[0.5, 0.5], [0, 0]]]),
    ]
    keep_parents(organize, sure, 4)
    assert seen[0].tolist() == [[0, 1, 2, 4]], "both roots, then a child of each"


def test_better_nodes_are_kept_as_before() -> None:
    def organize(score_list: list[Tensor], nodes: int) -> list[int]:
        return score_list[0].topk(nodes, dim=-1).indices.sort().values.tolist()

    scores = torch.rand(3, 40, generator=torch.Generator().manual_seed(1))
    assert keep_parents(organize, [scores], 9) == organize([scores], 9)
