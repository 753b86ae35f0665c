"""Compares the Triton kernels with the torch forms, and prints how many cases there were and which differ."""

import itertools
import json
import runpy
import sys

import torch
from torch import Tensor

from tlt_worker.engine.device import STANDIN_PATH
from tlt_worker.scheduler.sampling import accept_kernels, acceptance, kernels, threshold
from tlt_worker.scheduler.sampling.cuts import Cuts
from tlt_worker.scheduler.sampling.draw import UNSEEDED, draw
from tlt_worker.scheduler.sampling.forms import FORMS, Form
from tlt_worker.scheduler.sampling.noise import exponentials

murmur_hash32_cpu = runpy.run_path(str(STANDIN_PATH / "sgl_kernel" / "hashing.py"))["murmur_hash32_cpu"]

SIZES = (1, 16, 35)
TOP_PS = (1e-6, 0.9, 1.0)
TOP_KS = (7, 60)
MIN_PS = (0.0, 0.2)
DTYPES = (torch.int64, torch.int32)
NODES = (1, 2, 5)


def rows_of(size: int) -> Tensor:
    """Return rows with and without ties, one of zeros, one with a certain token, ones that are not distributions."""
    scores = torch.randn(4, size, generator=torch.Generator().manual_seed(size)) * 3
    scores[1] = scores[1].round()
    rows = torch.cat([scores.softmax(-1), torch.zeros(2, size)])
    rows[2] *= 1e-9  # what is left of p - q
    rows[3] *= 1e4
    rows[5, -1] = 1.0
    return rows


def filters(rows: Tensor, top_k: int, top_p: float, min_p: float) -> bool:
    size = (len(rows),)
    chosen = Cuts(
        top_ks=torch.full(size, top_k, dtype=torch.int32),
        top_ps=torch.full(size, top_p),
        min_ps=torch.full(size, min_p),
    )
    found = kernels.truncate(rows, chosen)
    return torch.equal(found.nan_to_num(-1), threshold.truncate(rows, chosen).nan_to_num(-1))


def draws(rows: Tensor) -> bool:
    coins = torch.rand(64, generator=torch.Generator().manual_seed(3))
    coins[:3] = torch.tensor([0.0, 1 - 2.0**-24, 1.0])
    every = rows.repeat_interleave(len(coins), 0)
    return torch.equal(kernels.draw(every, coins.repeat(len(rows))), draw(every, coins.repeat(len(rows))))


def seeds(rows: Tensor, dtype: torch.dtype) -> bool:
    chosen = torch.tensor([0, 7, UNSEEDED, 2**40 + 3, 2**62, 9])
    positions = torch.tensor([0, 1, 2, 3, 2**20, 5], dtype=dtype)
    tokens = torch.arange(6)
    hashed = murmur_hash32_cpu(chosen, positions, torch.arange(rows.shape[1])).to(torch.int64)
    drawn = (rows / exponentials(hashed)).argmax(-1)
    return torch.equal(kernels.reseed(tokens, rows, chosen, positions), torch.where(chosen == UNSEEDED, tokens, drawn))


def outputs(batch: int, nodes: int, depth: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return what SGLang gives its kernels to fill in."""
    whole = {"dtype": torch.int32}
    return (
        torch.zeros(batch * nodes, **whole),  # type: ignore[call-overload]
        torch.full((batch, depth), -1, **whole),  # type: ignore[call-overload]
        torch.empty(batch, **whole),  # type: ignore[call-overload]
    )


def distributions(*shape: int, seed: int) -> Tensor:
    """Return distributions, some tokens of which are impossible."""
    chance = torch.Generator().manual_seed(seed)
    masses = (torch.randn(*shape, generator=chance) * 2).softmax(-1)
    masses = masses.masked_fill(torch.rand(*shape, generator=chance) < 0.2, 0)
    return masses / masses.sum(-1, keepdim=True).clamp(min=1e-9)


def chains(size: int, nodes: int, *, seeded: bool) -> bool:
    """Drafts of any quality; some requests without drafts, one whose drafts are the target's own, one broken."""
    batch, chance = 9, torch.Generator().manual_seed(nodes + size)
    p = distributions(batch, nodes, size, seed=nodes)
    q = distributions(batch, max(1, nodes - 1), size, seed=nodes + 1)
    q[0] = p[0, : q.shape[1]]
    q[1], p[1] = 0.0, p[1].sum(-1, keepdim=True) / size
    p[2, 0, 0] = torch.nan
    drafts = torch.multinomial(q.flatten(0, 1) + 1e-9, 1, generator=chance).view(batch, -1)[:, : nodes - 1]
    drafts[3:5] = acceptance.NO_DRAFT
    if nodes > 2:
        drafts[5, 1:] = acceptance.NO_DRAFT
    candidates = torch.cat([torch.zeros(batch, 1, dtype=torch.int64), drafts], 1)
    index = torch.arange(batch * nodes).view(batch, nodes)
    coins, last = torch.rand(batch, nodes, generator=chance), torch.rand(batch, generator=chance)
    seeds_B = torch.arange(batch).where(torch.arange(batch) % 3 > 0, UNSEEDED) if seeded else None
    positions = torch.arange(batch * nodes).view(batch, nodes)
    made, other = outputs(batch, nodes, nodes), outputs(batch, nodes, nodes)
    token = acceptance.verifying.set(acceptance.VerifyRound(positions=positions, cuts=None, seeds=seeds_B))
    acceptance.accept_chain(*made, candidates, index, index, index, coins, last, p, q)
    seeds_B, said_BN = acceptance.said_of(acceptance.verifying.get(), p)
    acceptance.verifying.reset(token)
    accept_kernels.accept_chains(*other, candidates, index, coins, last, p, q, seeds_B, said_BN)
    return all(torch.equal(one, two) for one, two in zip(made, other, strict=True))


def trees(nodes: int, depth: int) -> bool:
    """Trees of any form, with tokens that are repeated among siblings."""
    batch, size, chance = 8, 4, torch.Generator().manual_seed(nodes)
    parents = torch.stack([torch.randint(0, max(1, node), (batch,), generator=chance) for node in range(nodes)], 1)
    child, sibling = torch.full((batch, nodes), -1), torch.full((batch, nodes), -1)
    for row, node in itertools.product(range(batch), range(nodes - 1, 0, -1)):
        parent = parents[row, node]
        sibling[row, node], child[row, parent] = child[row, parent].clone(), node
    candidates = torch.randint(0, size, (batch, nodes), generator=chance)
    index = torch.arange(batch * nodes).view(batch, nodes)
    said = torch.randint(0, size, (batch, nodes), generator=chance)
    certain = torch.nn.functional.one_hot(said, size).float()
    made, other = outputs(batch, nodes, depth), outputs(batch, nodes, depth)
    coins = torch.rand(batch, nodes, generator=chance)
    acceptance.tree_speculative_sampling_target_only(
        *made, candidates, index, child, sibling, coins, coins[:, 0], certain, certain
    )
    accept_kernels.follow_trees(*other, candidates, index, child, sibling, said)
    return all(torch.equal(one, two) for one, two in zip(made, other, strict=True))


def main() -> None:
    """Run all cases."""
    vars(acceptance)["drawn"] = lambda probs, *_: probs.nan_to_num(0).argmax(-1)  # SGLang's hash is not needed for it
    vars(accept_kernels)["BLOCK"] = kernels.BLOCK = 16
    FORMS["cpu"] = Form.FIXED
    done = dict[tuple[object, ...], bool]()
    for size in SIZES:
        rows = rows_of(size)
        for top_k, top_p, min_p in itertools.product(TOP_KS, TOP_PS, MIN_PS):
            done["filters", size, top_k, top_p, min_p] = filters(rows, top_k, top_p, min_p)
        done["draws", size] = draws(rows)
        for dtype in DTYPES:
            done["seeds", size, str(dtype)] = seeds(rows, dtype)
        for nodes, seeded in itertools.product(NODES, (False, True)):
            done["chains", size, nodes, seeded] = chains(size, nodes, seeded=seeded)
    for nodes, depth in itertools.product((1, 5, 12), (2, 4)):
        done["trees", nodes, depth] = trees(nodes, depth)
    different = [case for case, is_equal in done.items() if not is_equal]
    sys.stdout.write(json.dumps({"cases": len(done), "different": different}))


if __name__ == "__main__":
    main()
