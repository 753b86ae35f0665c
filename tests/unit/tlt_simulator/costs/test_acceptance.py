"""How many drafts are accepted, by quality of the drafter and shape of the arm."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_simulator.run.scenarios import costs
from tlt_common.domain.arm import Arm, block, chain, ngram, tree
from tlt_common.domain.arm.arm import MAX_DRAFT_TOKENS, MAX_STEPS, MAX_TOPK
from tlt_simulator.costs import learning
from tlt_simulator.costs.model import CostModel
from tlt_simulator.costs.published.accept_lengths import (
    ACCEPT_LENGTHS,
    fitted_decay,
    fitted_narrowing,
    tree_lengths,
)

NARROWING = CostModel.model_fields["tree_narrowing"].default.value
CALCULATED = costs(accept_decay=learning.ACCEPT_DECAY.value)

qualities = st.floats(0.0, 1.0)


@st.composite
def trees(draw: st.DrawFn) -> Arm:
    steps, topk = draw(st.integers(1, MAX_STEPS)), draw(st.integers(2, MAX_TOPK))
    most = min(topk + (steps - 1) * topk**2 + 1, MAX_DRAFT_TOKENS)
    return tree(steps, topk, draw(st.integers(min(steps + 1, most), most)))


lengths = st.integers(1, MAX_STEPS)
arms = st.one_of(lengths.map(chain), lengths.map(block), lengths.map(ngram), trees())


def kept(arm: Arm, quality: float, model: CostModel = CALCULATED) -> float:
    """Tokens of a round."""
    return 1.0 + model.replaced("ngram_accept", quality).accepted(arm, quality)


@given(arms)
def test_drafts_that_are_never_accepted_leave_one_token_and_those_that_always_are_leave_all(arm: Arm) -> None:
    assert kept(arm, 0.0) == 1.0
    assert kept(arm, 1.0) == pytest.approx(arm.steps + 1)


@given(arms, qualities, qualities)
def test_a_better_drafter_keeps_at_least_as_many_tokens(arm: Arm, one: float, other: float) -> None:
    worse, better = sorted((one, other))
    assert kept(arm, worse) <= kept(arm, better) + 1e-9


@given(trees(), qualities)
def test_a_wider_a_deeper_and_a_larger_tree_keep_at_least_as_many_tokens(arm: Arm, quality: float) -> None:
    assert kept(arm, quality) <= kept(replace(arm, topk=arm.topk + 1), quality) + 1e-9
    assert kept(arm, quality) <= kept(replace(arm, steps=arm.steps + 1), quality) + 1e-9
    assert kept(arm, quality) <= kept(replace(arm, draft_tokens=arm.draft_tokens + 1), quality) + 1e-9


@given(lengths, qualities)
def test_a_longer_chain_keeps_at_least_as_many_tokens(drafts: int, quality: float) -> None:
    for kind in (chain, block, ngram):
        assert kept(kind(drafts), quality) <= kept(kind(drafts + 1), quality)


@given(trees(), qualities)
def test_a_tree_keeps_at_least_what_a_chain_of_its_depth_does(arm: Arm, quality: float) -> None:
    assert kept(arm, quality) >= kept(chain(arm.steps), quality) - 1e-9


def test_decay_and_narrowing_are_those_that_fit_the_published_accept_lengths() -> None:
    assert learning.ACCEPT_DECAY.value == pytest.approx(fitted_decay(NARROWING, [0.82, 0.84, 0.86, 0.88, 0.90, 0.92]))
    assert pytest.approx(fitted_narrowing(learning.ACCEPT_DECAY.value, [0.45, 0.5, 0.55, 0.6, 0.65])) == NARROWING


def test_published_trees_are_explained_by_the_same_drafters_chains() -> None:
    errors = [
        tokens / dict(one.trees)[arm] - 1.0
        for one in ACCEPT_LENGTHS
        for arm, tokens in tree_lengths(one, learning.ACCEPT_DECAY.value, NARROWING)
    ]
    assert len(errors) == 12
    assert max(map(abs, errors)) < 0.06


def test_every_series_names_its_source() -> None:
    assert all(one.source.startswith(("https://", "docs/")) for one in ACCEPT_LENGTHS)
