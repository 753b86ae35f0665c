"""Seeded draws: SGLang's own, whatever was drafted."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from tlt_worker.engine.device import STANDIN_PATH
from tlt_worker.scheduler.sampling.acceptance import (
    VerifyRound,
    accept_chain,
    tree_speculative_sampling_target_only,
    verifying,
)
from tlt_worker.scheduler.sampling.draw import UNSEEDED, draw_seeded, race, reseed
from tlt_worker.scheduler.sampling.noise import hashes

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


def test_rows_without_a_seed_keep_their_tokens() -> None:
    tokens, probs = torch.arange(4), distributions(4)
    seeds, positions = torch.tensor([UNSEEDED, 3, UNSEEDED, 4]), torch.arange(4)
    found = reseed(tokens, probs, seeds, positions)
    assert found[[0, 2]].tolist() == [0, 2]
    assert torch.equal(found[[1, 3]], draw_seeded(probs, seeds, positions)[[1, 3]])
    assert reseed(tokens, probs, None, positions) is tokens


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
