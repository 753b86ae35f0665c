"""Rounds on the meta device: tensors with shapes, but without values."""

import torch
from torch import Tensor

from tlt_worker.scheduler.sampling import acceptance
from tlt_worker.scheduler.sampling.acceptance import VerifyRound, verifying
from tlt_worker.scheduler.sampling.cuts import Cuts


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def cuts(rows: int) -> Cuts:
    return Cuts(top_ks=meta(rows, dtype=torch.int32), top_ps=meta(rows), min_ps=meta(rows))


def accept(batch: int, nodes: int, vocabulary: int, *, depth: int | None = None, filtered: bool = False) -> None:
    """Verify sampled chains, or with `depth` trees."""
    links = meta(batch, nodes, dtype=torch.int64)
    rule = acceptance.accept_chain if depth is None else acceptance.tree_speculative_sampling_target_only
    token = verifying.set(VerifyRound(cuts=cuts(batch) if filtered else None, seeds=None, positions=links))
    try:
        rule(
            meta(batch * nodes, dtype=torch.int32),
            meta(batch, depth or nodes, dtype=torch.int32),
            meta(batch, dtype=torch.int32),
            candidates=links,
            retrive_index=links,
            retrive_next_token=links,
            retrive_next_sibling=links,
            uniform_samples=meta(batch, nodes),
            uniform_samples_for_final_sampling=meta(batch),
            target_probs=meta(batch, nodes, vocabulary),
            draft_probs=meta(batch, max(1, nodes - 1), vocabulary),
        )
    finally:
        verifying.reset(token)
