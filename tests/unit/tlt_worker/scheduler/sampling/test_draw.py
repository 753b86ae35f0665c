"""Seeded draws: SGLang's own, whatever was drafted."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor

from tlt_worker.engine.device import STANDIN_PATH
from tlt_worker.scheduler.sampling import noise
from tlt_worker.scheduler.sampling.acceptance import (
    VerifyRound,
    accept_chain,
    tree_speculative_sampling_target_only,
    verifying,
)
from tlt_worker.scheduler.sampling.draw import UNSEEDED, draw_seeded, drawn, race
from tlt_worker.scheduler.sampling.forms import FORMS, Form
from tlt_worker.scheduler.sampling.noise import KeptHashes, exponentials, hashes, winners

VOCABULARY, BATCH = 12, 300


@pytest.fixture(autouse=True)
def _hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-in's hash where SGLang's is, whose import takes long. `test_upstream` compares the two."""
    spec = spec_from_file_location("hashing", STANDIN_PATH / "sgl_kernel" / "hashing.py")
    assert spec is not None
    assert spec.loader is not None
    hashing = module_from_spec(spec)
    spec.loader.exec_module(hashing)
    found = SimpleNamespace(murmur_hash32=hashing.murmur_hash32_cpu)
    monkeypatch.setitem(sys.modules, "sglang.kernels.ops.sampling.murmur_hash", found)
    torch.manual_seed(0)


def distributions(*shape: int) -> Tensor:
    return torch.softmax(torch.randn(*shape, VOCABULARY) * 1.5, -1)


def test_one_seed_draws_tokens_by_their_probability() -> None:
    probs, positions = distributions(1), torch.arange(30_000)
    seeds = torch.full_like(positions, 77)
    counts = torch.bincount(draw_seeded(probs.expand(len(positions), -1), seeds, positions), minlength=VOCABULARY)
    expected = probs[0].double() / probs[0].double().sum() * len(positions)
    assert chisquare(counts.numpy(), expected.numpy()).pvalue > 0.001


def test_a_race_draws_tokens_by_their_weight() -> None:
    weights = torch.cat([distributions(1) * 3.0, torch.zeros(1, 2)], 1)
    counts = torch.bincount(race(weights.expand(30_000, -1)), minlength=VOCABULARY + 2)
    assert counts[VOCABULARY:].sum() == 0, "tokens without weight are never drawn"
    expected = weights[0, :VOCABULARY].double() / weights[0].double().sum() * 30_000
    assert chisquare(counts[:VOCABULARY].numpy(), expected.numpy()).pvalue > 0.001


def test_a_race_of_weights_that_are_no_numbers_draws_a_token() -> None:
    assert 0 <= int(race(torch.full((1, VOCABULARY), torch.nan))) < VOCABULARY


def test_noise_depends_on_seed_position_and_token_only() -> None:
    seeds, positions = torch.tensor([5, 5, 6]), torch.tensor([1, 2, 1])
    noise = hashes(seeds, positions, 30)
    assert torch.equal(hashes(seeds[1:2], positions[1:2], 20), noise[1:2, :20])
    assert len({tuple(row) for row in noise.tolist()}) == 3


def test_impossible_tokens_never_win() -> None:
    probs = torch.tensor([[0.0, 1.0, 0.0]]).expand(1000, -1)
    assert (draw_seeded(probs, torch.arange(1000), torch.arange(1000)) == 1).all()


@pytest.mark.parametrize("form", Form)
def test_rows_without_a_seed_are_drawn_otherwise(monkeypatch: pytest.MonkeyPatch, form: Form) -> None:
    monkeypatch.setitem(FORMS, "cpu", form)
    tokens, probs = torch.arange(4), distributions(4)
    seeds, positions = torch.tensor([UNSEEDED, 3, UNSEEDED, 4]), torch.arange(4)
    found = drawn(probs, seeds, positions, lambda: tokens)
    assert found[[0, 2]].tolist() == [0, 2]
    assert torch.equal(found[[1, 3]], draw_seeded(probs, seeds, positions)[[1, 3]])
    assert drawn(probs, None, positions, lambda: tokens) is tokens


def test_nothing_is_drawn_otherwise_where_all_rows_have_a_seed() -> None:
    probs, seeds, positions = distributions(2), torch.tensor([3, 4]), torch.arange(2)

    def never() -> Tensor:
        raise AssertionError

    assert torch.equal(drawn(probs, seeds, positions, never), draw_seeded(probs, seeds, positions))


PINNED = {
    0: [22, 33, 14, 28, 0, 5, 44, 0, 74, 152, 9, 1, 12, 0, 6, 0, 98, 0, 18, 21, 102, 32, 0, 2],
    7: [56, 0, 0, 59, 1, 3, 120, 0, 0, 19, 2, 17, 54, 9, 0, 18, 25, 7, 0, 86, 0, 1, 106, 0],
    2**40 + 3: [67, 7, 5, 150, 0, 37, 2, 9, 107, 15, 2, 0, 1, 63, 11, 34, 0, 1, 79, 8, 4, 14, 9, 0],
    2**62: [33, 149, 16, 0, 5, 2, 1, 1, 0, 104, 0, 0, 1, 2, 29, 15, 17, 21, 0, 17, 2, 0, 0, 7],
}
"""Tokens at positions 0 to 23, by seed, of a token's probability falling as 1 / (token + 1)."""


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("seed", PINNED)
def test_a_seed_gives_the_tokens_it_always_gave(monkeypatch: pytest.MonkeyPatch, seed: int, form: Form) -> None:
    monkeypatch.setitem(FORMS, "cpu", form)
    weights, wanted = 1.0 / torch.arange(1, 161), PINNED[seed]
    probs = (weights / weights.sum()).expand(len(wanted), -1)
    found = draw_seeded(probs, torch.full((len(wanted),), seed), torch.arange(len(wanted)))
    assert found.tolist() == wanted


def computed_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that receives the number of rows of each call that computes hashes."""
    rows: list[int] = []

    def counted(seeds: Tensor, positions: Tensor, size: int) -> Tensor:
        rows.append(len(seeds))
        return hashes(seeds, positions, size)

    monkeypatch.setattr(noise, "hashes", counted)
    return rows


def test_the_hashes_of_a_round_are_computed_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, seeds = KeptHashes(), [5, 6, 2**40]
    rows = computed_rows(monkeypatch)
    for step in range(7):  # drafts, at lengths of their own
        kept.of(seeds, [100 + step, 20 + step, 3 + step], VOCABULARY)
    for seed, first in zip(seeds, (100, 20, 3), strict=True):  # their verification
        found = kept.of([seed] * 8, range(first, first + 8), VOCABULARY)
        wanted = hashes(torch.tensor([seed] * 8), torch.arange(first, first + 8), VOCABULARY) - 2**31
        assert torch.equal(found, wanted)
    assert rows == [3 * 8]


def test_requests_that_accept_different_numbers_of_drafts_need_one_call_a_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept, seeds, at = KeptHashes(), [5, 6, 7], [100, 20, 3]
    rows = computed_rows(monkeypatch)
    for round_ in range(12):
        for step in range(7):
            kept.of(seeds, [first + step for first in at], VOCABULARY)
        kept.of(
            [seed for seed in seeds for _ in range(8)], [first + node for first in at for node in range(8)], VOCABULARY
        )
        at = [first + 1 + (round_ * (place + 1) + place) % 8 for place, first in enumerate(at)]
    assert len(rows) <= 12
    assert sum(rows) <= sum(at) - 123 + 3 * 2 * 8, "each position once"


def test_hashes_are_computed_anew_for_another_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptHashes()
    small = kept.of([5], [1], 10)
    rows = computed_rows(monkeypatch)
    assert torch.equal(kept.of([5], [1], 20)[:, :10], small)
    assert rows
    assert kept.of([], [], 20).shape == (0, 20)


@given(
    seed=st.integers(0, 2**62),
    sharpness=st.floats(0.0, 30.0),
    size=st.sampled_from([1, 2, 160, 5000]),
    zeros=st.floats(0.0, 1.0),
)
@settings(max_examples=60, deadline=None)
def test_the_winner_is_that_of_the_noise_of_all_tokens(seed: int, sharpness: float, size: int, zeros: float) -> None:
    rows = 64
    generator = torch.Generator().manual_seed(seed % 2**31)
    probs = (sharpness * torch.randn(rows, size, generator=generator)).softmax(-1)
    probs[torch.rand(rows, size, generator=generator) < zeros] = 0.0
    seeds = torch.full((rows,), seed)
    hashed = hashes(seeds, torch.arange(rows), size)
    found = winners(probs, (hashed - 2**31).to(torch.int32))
    assert torch.equal(found, (probs / exponentials(hashed)).argmax(-1))


def test_a_row_whose_likely_tokens_all_have_much_noise_is_computed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "LIKELY", 0.9)
    monkeypatch.setattr(noise, "OTHERS", 0.9 * 2.0**10)
    probs = torch.rand(200, 160, generator=torch.Generator().manual_seed(1))
    hashed = hashes(torch.full((200,), 3), torch.arange(200), 160)
    found = winners(probs, (hashed - 2**31).to(torch.int32))
    assert torch.equal(found, (probs / exponentials(hashed)).argmax(-1))


def test_a_row_of_no_numbers_gives_some_token() -> None:
    probs = torch.full((3, 160), torch.nan)
    found = winners(probs, torch.zeros(3, 160, dtype=torch.int32))
    assert found.shape == (3,)
    assert ((found >= 0) & (found < 160)).all()


@pytest.mark.parametrize("room", [1, 6, 1000])
def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(noise, "KEPT_BYTES", room * 4 * VOCABULARY)
    kept = KeptHashes()
    for position in range(200):
        found = kept.of([5, 6], [position, 2 * position], VOCABULARY)
        wanted = hashes(torch.tensor([5, 6]), torch.tensor([position, 2 * position]), VOCABULARY) - 2**31
        assert torch.equal(found, wanted)
        assert len(kept._table) == room
        assert len(kept._place) <= room


def verify(accept: str, p: Tensor, q: Tensor, drafts: Tensor, seeds: Tensor) -> tuple[list[list[int]], Tensor]:
    """Verify chains of requests at positions 10, 11, ...; return what each says, and drafts kept."""
    nodes = p.shape[1]
    index = torch.arange(BATCH * nodes).view(BATCH, nodes)
    child = torch.tensor([*range(1, nodes), -1]).expand(BATCH, -1)
    sibling = torch.full_like(child, -1)
    predicts, kept = torch.zeros(BATCH * nodes, dtype=torch.int32), torch.zeros(BATCH, dtype=torch.int32)
    path = torch.full((BATCH, nodes), -1, dtype=torch.int32)
    candidates = torch.cat([torch.zeros(BATCH, 1, dtype=torch.int64), drafts], 1)
    function = accept_chain if accept == "chain" else tree_speculative_sampling_target_only
    positions = torch.arange(10, 10 + nodes).expand(BATCH, -1)
    token = verifying.set(VerifyRound(positions=positions, cuts=None, seeds=seeds))
    try:
        coins = torch.rand(BATCH, nodes), torch.rand(BATCH)
        function(predicts, path, kept, candidates, index, child, sibling, *coins, p, q)
    finally:
        verifying.reset(token)
    return [predicts[row[: n + 1].long()].tolist() for row, n in zip(path, kept.tolist(), strict=True)], kept


@pytest.mark.parametrize("accept", ["chain", "tree"])
def test_a_seed_gives_the_tokens_of_plain_decoding(accept: str) -> None:
    nodes = 5
    p = distributions(1, nodes).expand(BATCH, -1, -1)
    q = (p[:, :-1] * 0.7 + distributions(1, nodes - 1) * 0.3).contiguous()
    seeds, positions = torch.arange(BATCH), torch.arange(10, 10 + nodes)
    rows = [draw_seeded(p[:, node], seeds, positions[node].expand(BATCH)) for node in range(nodes)]
    plain = torch.stack(rows, 1).tolist()  # what is drawn at a position does not depend on the tokens before, here
    coupled = torch.stack(
        [draw_seeded(q[:, node], seeds, positions[node].expand(BATCH)) for node in range(nodes - 1)], 1
    )
    apart = torch.randint(0, VOCABULARY, coupled.shape)
    kept = {}
    for name, drafts in (("coupled", coupled), ("apart", apart)):
        said, counts = verify(accept, p, q, drafts, seeds)
        assert all(answer == wanted[: len(answer)] for answer, wanted in zip(said, plain, strict=True))
        kept[name] = float(counts.float().mean())
    assert kept["coupled"] > kept["apart"] + 1


def test_rows_without_a_seed_are_drawn_beside_those_with_one() -> None:
    p, q = distributions(1, 3).expand(BATCH, -1, -1), distributions(1, 2).expand(BATCH, -1, -1)
    drafts = torch.multinomial(q.flatten(0, 1), 1).view(BATCH, 2)
    seeds = torch.where(torch.arange(BATCH) % 2 == 0, 5, UNSEEDED)
    said, _ = verify("chain", p, q, drafts, seeds)
    assert len({answer[0] for answer in said[::2]}) == 1
    assert len({answer[0] for answer in said[1::2]}) > 3
