"""How many drafts are accepted, by quality of the drafter and shape of the arm."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_simulator.run.scenarios import costs
from tlt_common.domain.arm import OFF, Arm, block, chain, ngram, tree
from tlt_common.domain.arm.arm import MAX_DRAFT_TOKENS, MAX_STEPS, MAX_TOPK
from tlt_simulator.costs import learning
from tlt_simulator.costs.model import CostModel
from tlt_simulator.costs.published.accept_lengths import (
    ACCEPT_LENGTHS,
    NGRAM_LENGTHS,
    fitted_curve,
    fitted_decay,
    fitted_narrowing,
    fitted_quality,
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
    found = model.replaced(ngram_accept=quality, ngram_next_accept=quality)
    return 1.0 + found.accepted(arm, quality)


@given(arms)
def test_drafts_that_are_never_accepted_leave_one_token_and_those_that_always_are_leave_all(arm: Arm) -> None:
    assert kept(arm, 0.0) == 1.0
    assert kept(arm, 1.0) == pytest.approx(arm.steps + 1)


@given(qualities, st.floats(0.0, 1.0))
def test_a_plain_round_keeps_one_token(quality: float, decay: float) -> None:
    assert kept(OFF, quality, costs(accept_decay=decay)) == 1.0


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


def test_the_learning_curve_is_the_one_that_fits_a_drafter_made_anew() -> None:
    start, half = fitted_curve(learning.ACCEPT_BEST.value, learning.ACCEPT_DECAY.value, [1e5 * n for n in range(3, 12)])
    assert learning.ACCEPT_START.value == pytest.approx(start, abs=0.02)
    assert learning.LEARN_HALF_TOKENS.value == pytest.approx(half, rel=0.15)


def test_public_drafters_are_as_good_as_those_published_on_most_data() -> None:
    public = [
        fitted_quality([(chain(drafts), kept) for drafts, kept in one.chains.items()], 0.88, NARROWING)
        for one in ACCEPT_LENGTHS
        if one.chains and one.source.startswith("https://") and "30B" not in one.drafter
    ]
    figure = learning.ACCEPT_PUBLIC
    assert figure.least <= min(public) + 0.01
    assert figure.most >= max(public) - 0.01
    assert figure.value == pytest.approx(sum(public) / len(public), abs=0.02)


@pytest.mark.parametrize("alone", NGRAM_LENGTHS.values(), ids=NGRAM_LENGTHS)
def test_ngrams_without_siblings_are_within_what_was_counted(alone: tuple[float, float]) -> None:
    one, five = alone
    first = learning.NGRAM_ALONE_ACCEPT
    further = learning.NGRAM_NEXT_ACCEPT
    least, most = (
        1.0 + sum(begins * goes_on**place for place in range(5))
        for begins, goes_on in ((first.least, further.least), (first.most, further.most))
    )
    assert least <= five <= most
    assert one < five


def test_a_drafter_that_learns_at_once_begins_where_it_begins() -> None:
    at_once = costs(learn_half_tokens=0.0)
    assert at_once.quality(0.0, 0.0) == at_once.accept_start.value
    assert at_once.quality(1.0, 0.0) == at_once.accept_best.value
