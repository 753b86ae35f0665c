"""Whole sums are exact within their bound."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tlt_worker.scheduler.sampling.draw import draw
from tlt_worker.scheduler.sampling.fixed_point import BITS, COIN_BITS, point, scaled, whole


def row(seed: int, size: int, spread: float) -> torch.Tensor:
    return (torch.randn(size, generator=torch.Generator().manual_seed(seed)) * spread).exp()


@given(st.integers(0, 2**16), st.integers(1, 400), st.sampled_from([0.1, 3.0, 12.0]), st.integers(-60, 60))
def test_the_chances_of_a_row_are_off_by_less_than_its_size_times_the_unit(
    seed: int, size: int, spread: float, power: int
) -> None:
    weights = row(seed, size, spread) * 2.0**power
    true, found = [Fraction(each) for each in weights.tolist()], scaled(weights.view(1, -1))[0].tolist()
    share, kept = sum(true), sum(found)
    off = sum(abs(each / share - Fraction(cut, kept)) for each, cut in zip(true, found, strict=True))
    assert off / 2 < Fraction(size, 2**BITS)


@given(st.integers(0, 2**16), st.integers(1, 300), st.integers(0, 2**COIN_BITS - 1))
def test_a_coin_draws_the_token_whose_exact_share_it_falls_into(seed: int, size: int, coin: int) -> None:
    weights = row(seed, size, 4.0)
    found = scaled(weights.view(1, -1))[0].tolist()
    drawn = int(draw(weights.view(1, -1), torch.tensor([coin * 2.0**-COIN_BITS]))[0])
    at = coin * sum(found) // 2**COIN_BITS
    assert sum(found[:drawn]) <= at < sum(found[: drawn + 1])


@given(st.integers(0, 2**62 - 1), st.floats(0, 1, width=32))
def test_a_point_is_below_its_total(total: int, coin: float) -> None:
    found = int(point(torch.tensor([[total]]), torch.tensor([[coin]]))[0, 0])
    assert 0 <= found < max(1, total)


def test_a_sum_is_the_same_in_any_order() -> None:
    weights = row(0, 50_000, 3.0)
    mixed = weights[torch.randperm(len(weights), generator=torch.Generator().manual_seed(1))]
    assert int(scaled(weights.view(1, -1)).sum()) == int(scaled(mixed.view(1, -1)).sum())


def test_the_largest_vocabulary_does_not_overflow() -> None:
    assert int(scaled(torch.ones(1, 2**18)).sum()) == 2**18 * 2 ** (BITS - 1)
    assert int(scaled(torch.full((1, 2**18), 1.999)).sum()) > 0


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), -float("inf")])
def test_what_is_no_weight_is_never_drawn(weight: float) -> None:
    weights = torch.tensor([[weight, 0.5, weight]]).expand(3, -1)
    assert draw(weights, torch.tensor([0.0, 0.5, 1.0])).tolist() == [1, 1, 1]
    assert whole(torch.tensor([weight])).tolist() == [0]


def test_a_row_without_weights_draws_a_token_of_the_vocabulary() -> None:
    rows = torch.tensor([[0.0, 0.0], [float("nan")] * 2, [float("inf")] * 2])
    assert draw(rows, torch.full((3,), 0.5)).tolist() == [1, 1, 1]
