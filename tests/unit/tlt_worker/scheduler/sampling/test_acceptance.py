"""The torch verification kernels against a scalar statement of the rule, and their distribution."""

from collections.abc import Callable

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from tlt_worker.scheduler.sampling.acceptance import (
    VerifyRound,
    accept_chain,
    tree_speculative_sampling_target_only,
    verifying,
)
from tlt_worker.scheduler.sampling.cuts import Cuts
from tlt_worker.scheduler.sampling.draw import draw
from tlt_worker.scheduler.sampling.filters import truncate

VOCABULARY = 8


def distributions(*shape: int) -> Tensor:
    """Random distributions, some tokens of which are impossible."""
    masses = torch.softmax(torch.randn(*shape, VOCABULARY) * 1.5, -1).masked_fill(
        torch.rand(*shape, VOCABULARY) < 0.2, 0
    )
    return masses / masses.sum(-1, keepdim=True)


def outputs(batch: int, nodes: int, depth: int) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.zeros(batch * nodes, dtype=torch.int32),
        torch.full((batch, depth), -1, dtype=torch.int32),
        torch.zeros(batch, dtype=torch.int32),
    )


def links(parents: list[int], batch: int) -> tuple[Tensor, Tensor, Tensor]:
    nodes = len(parents)
    child, sibling = [-1] * nodes, [-1] * nodes
    for node in range(nodes - 1, 0, -1):
        sibling[node], child[parents[node]] = child[parents[node]], node
    index = torch.arange(batch * nodes).view(batch, nodes)
    return index, torch.tensor(child).expand(batch, -1), torch.tensor(sibling).expand(batch, -1)


def scalar_chain(drafts: list[int], p: Tensor, q: Tensor, coins: list[float], last_coin: float) -> list[int]:
    """One request, one token at a time: Leviathan et al. 2023, Algorithm 1."""
    for place, token in enumerate(drafts):
        if not coins[place] * q[place, token] < p[place, token]:
            rest = (p[place] - q[place]).clamp(min=0)
            return [*drafts[:place], scalar_draw(rest, last_coin)]
    return [*drafts, scalar_draw(p[len(drafts)], last_coin)]


def scalar_tree(tokens: list[int], parents: list[int], p: Tensor, coins: list[float], depth: int) -> list[int]:
    """One request: draw at a node, go to the first child that carries the token."""
    node, said = 0, list[int]()
    while True:
        said.append(scalar_draw(p[node], coins[node]))
        found = [c for c, parent in enumerate(parents) if parent == node and tokens[c] == said[-1]]
        if not found or len(said) == depth:
            return said
        node = found[0]


def scalar_draw(weights: Tensor, coin: float) -> int:
    total, point = 0.0, coin * float(weights.double().sum())
    for token, weight in enumerate(weights.double().tolist()):
        total += weight
        if total > point:
            return token
    return int(weights.nonzero()[-1])


def said(predicts: Tensor, accept_index: Tensor, kept: Tensor) -> list[list[int]]:
    return [predicts[path[: n + 1].long()].tolist() for path, n in zip(accept_index, kept.tolist(), strict=True)]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("steps", [0, 1, 3, 7])
def test_chains_follow_the_scalar_rule(steps: int) -> None:
    batch, nodes = 400, steps + 1
    p, q = distributions(batch, nodes), distributions(batch, max(steps, 1))
    drafts = torch.multinomial(q.flatten(0, 1), 1).view(batch, -1)[:, :steps]
    candidates = torch.cat([torch.zeros(batch, 1, dtype=torch.int64), drafts], 1)
    coins, last = torch.rand(batch, nodes), torch.rand(batch)
    index, child, sibling = links([-1, *range(steps)], batch)
    found = outputs(batch, nodes, nodes)
    accept_chain(*found, candidates, index, child, sibling, coins, last, p, q)
    expected = [scalar_chain(drafts[i].tolist(), p[i], q[i], coins[i].tolist(), float(last[i])) for i in range(batch)]
    assert said(*found) == expected


@pytest.mark.parametrize("parents", [[-1], [-1, 0, 1, 2], [-1, 0, 0, 0, 1, 1, 2, 4]])
@pytest.mark.parametrize("repeated", [False, True])
def test_trees_follow_the_scalar_rule(parents: list[int], repeated: bool) -> None:
    batch, nodes, depth = 400, len(parents), min(4, len(parents))
    p = distributions(batch, nodes)
    candidates = torch.randint(0, 3 if repeated else VOCABULARY, (batch, nodes))
    coins = torch.rand(batch, nodes)
    index, child, sibling = links(parents, batch)
    found = outputs(batch, nodes, depth)
    tree_speculative_sampling_target_only(
        *found, candidates, index, child, sibling, coins, torch.rand(batch), p, torch.zeros_like(p)
    )
    expected = [scalar_tree(candidates[i].tolist(), parents, p[i], coins[i].tolist(), depth) for i in range(batch)]
    assert said(*found) == expected


def test_tokens_of_trees_with_repeated_siblings_follow_the_target() -> None:
    batch, parents = 50_000, [-1, 0, 0, 0, 1, 1]
    p = distributions(1, 1).expand(batch, len(parents), -1)  # the next token's distribution is the same everywhere
    candidates = torch.tensor([0, 2, 2, 5, 1, 1]).expand(batch, -1)
    index, child, sibling = links(parents, batch)
    found = outputs(batch, len(parents), 3)
    tree_speculative_sampling_target_only(
        *found, candidates, index, child, sibling, torch.rand(batch, len(parents)), torch.rand(batch), p, p
    )
    for place in range(2):
        on_path = found[1][:, place]
        follows_target(found[0][on_path[on_path >= 0].long()], p[0, 0])


def follows_target(tokens: Tensor, probs: Tensor) -> None:
    counts, possible = torch.bincount(tokens, minlength=VOCABULARY).double(), probs > 0
    assert int(counts[~possible].sum()) == 0
    expected = probs[possible].double() / probs[possible].double().sum() * counts.sum()
    assert chisquare(counts[possible].numpy(), expected.numpy()).pvalue > 0.001


def test_the_first_token_of_a_chain_follows_the_target() -> None:
    batch = 100_000
    p, q = distributions(1, 4).expand(batch, -1, -1), distributions(1, 3).expand(batch, -1, -1)
    drafts = torch.multinomial(q.flatten(0, 1), 1).view(batch, 3)
    candidates = torch.cat([torch.zeros(batch, 1, dtype=torch.int64), drafts], 1)
    index, child, sibling = links([-1, 0, 1, 2], batch)
    found = outputs(batch, 4, 4)
    accept_chain(*found, candidates, index, child, sibling, torch.rand(batch, 4), torch.rand(batch), p, q)
    follows_target(found[0][index[:, 0]], p[0, 0])


@pytest.mark.parametrize("accept", [accept_chain, tree_speculative_sampling_target_only])
def test_what_is_drawn_from_is_cut_as_the_round_says(accept: Callable[..., None]) -> None:
    batch = 50_000
    p, q = distributions(1, 3).expand(batch, -1, -1), distributions(1, 2).expand(batch, -1, -1)
    drafts = torch.multinomial(q.flatten(0, 1), 1).view(batch, 2)
    candidates = torch.cat([torch.zeros(batch, 1, dtype=torch.int64), drafts], 1)
    index, child, sibling = links([-1, 0, 1], batch)
    found = outputs(batch, 3, 3)
    cuts = Cuts(top_ks=torch.full((batch,), 3), top_ps=torch.ones(batch), min_ps=torch.zeros(batch))
    token = verifying.set(VerifyRound(positions=index, cuts=cuts, seeds=None))
    try:
        accept(*found, candidates, index, child, sibling, torch.rand(batch, 3), torch.rand(batch), p, q)
    finally:
        verifying.reset(token)
    follows_target(found[0][index[:, 0]], truncate(p[:1, 0], cuts.of(torch.tensor([0])))[0])


def test_chains_whose_drafts_were_taken_away_draw_from_the_target() -> None:
    batch = 50_000
    p, q = distributions(1, 3).expand(batch, -1, -1), distributions(1, 2).expand(batch, -1, -1)
    index, child, sibling = links([-1, 0, 1], batch)
    found = outputs(batch, 3, 3)
    candidates = torch.tensor([0, -1, -1]).expand(batch, -1)
    accept_chain(*found, candidates, index, child, sibling, torch.rand(batch, 3), torch.rand(batch), p, q)
    assert not found[2].any()
    follows_target(found[0][index[:, 0]], p[0, 0])


@pytest.mark.parametrize("accept", [accept_chain, tree_speculative_sampling_target_only])
def test_thresholds_below_one_are_refused(accept: Callable[..., None]) -> None:
    index, child, sibling = links([-1, 0], 1)
    p = distributions(1, 2)
    with pytest.raises(ValueError, match="distribution"):
        accept(
            *outputs(1, 2, 2), torch.zeros(1, 2, dtype=torch.int64), index, child, sibling,
            torch.rand(1, 2), torch.rand(1), p, p, threshold_single=0.9,
        )  # fmt: skip


def test_a_coin_at_the_end_draws_no_impossible_token() -> None:
    weights = torch.tensor([[0.5, 0.5, 0.0]])
    assert draw(weights, torch.tensor([1.0])).tolist() == [1]
    assert draw(weights, torch.tensor([0.0])).tolist() == [0]
    assert draw(weights.flip(1), torch.tensor([0.0])).tolist() == [1]


def test_broken_weights_draw_a_token_that_exists() -> None:
    assert draw(torch.full((1, 3), torch.nan), torch.tensor([0.5])).tolist() == [2]
