"""
Acceptance of drafts as Triton kernels, for GPUs: one launch per round. Imported only there and by its test.

In torch, a round's acceptance is some fifty kernels over a few numbers. A round with one request is bound by launches
on the host, and on an H200 with a model of 7 billion parameters these took longer than the verification itself. Here
one program handles one request: it follows the drafts, draws the token after the last accepted one, and writes SGLang's
outputs.

Tokens are those of the torch form (`acceptance`) to the last bit: sums are of whole numbers, and no float is fused.

Shapes: B requests, N nodes (tokens to verify) per request, D depth, M = B * N, V vocabulary.
"""

import triton
import triton.language as tl
from torch import Tensor

from tlt_worker.scheduler.sampling.kernels import BLOCK, WARPS, draw_beyond


# What differs between arms must not cause a compilation: no round may wait for a compiler.
@triton.jit(do_not_specialize=["nodes", "row_stride", "node_stride"])  # type: ignore[untyped-decorator] # untyped
def accept_row(  # type: ignore[no-untyped-def] # noqa: ANN201
    predicts, accept_index, kept_drafts, candidates, index, coins, last_coins, target, draft,  # noqa: ANN001
    seeds, said, size, nodes, row_stride, node_stride,  # noqa: ANN001 - Triton reads annotations
    NODES: tl.constexpr, SEEDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Verify one chain; see `acceptance.accept_chain`."""
    row = tl.program_id(0).to(tl.int64)
    node = tl.arange(0, NODES)
    is_inner = node + 1 < nodes
    drafted = tl.load(candidates + row * nodes + node + 1, mask=is_inner, other=-1).to(tl.int64)
    is_draft = drafted >= 0
    token = tl.where(is_draft, drafted, 0)
    p = tl.load(target + (row * nodes + node) * size + token, mask=is_inner, other=0.0)
    q = tl.load(draft + row * row_stride + node * node_stride + token, mask=is_inner, other=0.0)
    coin = tl.load(coins + row * nodes + node, mask=is_inner, other=1.0)
    kept = tl.min(tl.where(is_draft & (coin * q < p), NODES, node), 0)
    refuses = tl.sum(tl.where(node == kept, is_draft.to(tl.int32), 0), 0) > 0
    q_first = draft + row * row_stride + tl.where(refuses, kept, 0).to(tl.int64) * node_stride
    p_first = target + (row * nodes + kept) * size
    after = draw_beyond(p_first, q_first, refuses, tl.load(last_coins + row), size, BLOCK)
    if SEEDED:
        drawn = tl.load(said + row * nodes + node, mask=node < nodes, other=0)
        follows = tl.min(tl.where(is_inner & (drawn == drafted), NODES, node), 0)
        is_seeded = tl.load(seeds + row) != -1
        kept = tl.where(is_seeded, follows, kept)
        after = tl.where(is_seeded, tl.sum(tl.where(node == follows, drawn, 0), 0), after)
    is_on_path = node <= kept
    at = tl.load(index + row * nodes + node, mask=is_on_path, other=-1)
    tl.store(predicts + at, tl.where(node == kept, after, drafted).to(tl.int32), mask=is_on_path)
    tl.store(accept_index + row * nodes + node, at.to(tl.int32), mask=node < nodes)
    tl.store(kept_drafts + row, kept)


@triton.jit(do_not_specialize=["nodes", "depth"])  # type: ignore[untyped-decorator]
def follow_row(  # type: ignore[no-untyped-def] # noqa: ANN201
    predicts, accept_index, kept_drafts, candidates, index, child_of, sibling_of, said, nodes, depth,  # noqa: ANN001
    DEPTH: tl.constexpr,
):  # fmt: skip
    """Follow the tokens drawn at the nodes of one tree; see `walk.follow`."""
    first = tl.program_id(0).to(tl.int64) * nodes
    level, path = tl.arange(0, DEPTH), tl.full([DEPTH], -1, tl.int32)
    here, length = tl.full([], 0, tl.int32), tl.full([], 0, tl.int32)
    while here >= 0:
        token = tl.load(said + first + here)
        at = tl.load(index + first + here)
        tl.store(predicts + at, token.to(tl.int32))
        path = tl.where(level == length, at.to(tl.int32), path)
        length += 1
        following, child = tl.full([], -1, tl.int32), tl.load(child_of + first + here).to(tl.int32)
        while child >= 0:
            fits = tl.load(candidates + first + child) == token
            is_first = fits & ((following < 0) | (child < following))
            following = tl.where(is_first, child, following)
            child = tl.load(sibling_of + first + child).to(tl.int32)
        here = tl.where(length < depth, following, -1)
    tl.store(accept_index + tl.program_id(0) * depth + level, path, mask=level < depth)
    tl.store(kept_drafts + tl.program_id(0), length - 1)


def accept_chains(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    coins_BN: Tensor,
    last_coins_B: Tensor,
    target_probs: Tensor,
    draft_probs: Tensor | None,
    seeds: Tensor | None,
    said_BN: Tensor | None,
) -> None:
    """
    Verify all chains.

    Args:
        predicts: [M], an output, as are the next two.
        accept_index: [B, N].
        accept_token_num: [B].
        candidates: [B, N] tokens, negative for missing drafts.
        retrive_index: [B, N] places in `predicts`.
        coins_BN: Coins of the drafts.
        last_coins_B: Coins of the tokens after them.
        target_probs: [B, N, V] float32, filtered.
        draft_probs: [B, N - 1, V] float32; None if nothing is drafted.
        seeds: [B], UNSEEDED for requests without one; None if no request has one.
        said_BN: Tokens drawn with seeded noise at every node, for requests with a seed.
    """
    batch, nodes, size = target_probs.shape
    target_probs = target_probs.contiguous()
    drafted = target_probs if draft_probs is None or nodes == 1 else draft_probs
    if drafted.stride(-1) != 1:
        drafted = drafted.contiguous()
    is_seeded = seeds is not None and said_BN is not None
    accept_row[(batch,)](
        predicts,
        accept_index,
        accept_token_num,
        candidates.contiguous(),
        retrive_index.contiguous(),
        coins_BN.contiguous(),
        last_coins_B.contiguous(),
        target_probs,
        drafted,
        seeds.contiguous() if is_seeded else candidates,  # type: ignore[union-attr] # both are given
        said_BN.contiguous() if is_seeded else candidates,  # type: ignore[union-attr]
        size,
        nodes,
        drafted.stride(0),
        drafted.stride(1),
        NODES=triton.next_power_of_2(nodes),
        SEEDED=is_seeded,
        BLOCK=BLOCK,
        num_warps=WARPS,
        enable_fp_fusion=False,
    )


def follow_trees(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    said_BN: Tensor,
) -> None:
    """Follow the tokens `said_BN` drawn at every node of all trees; parameters as of `accept_chains`."""
    batch, depth = accept_index.shape
    links = (retrive_index, retrive_next_token, retrive_next_sibling, said_BN)
    follow_row[(batch,)](
        predicts,
        accept_index,
        accept_token_num,
        candidates.contiguous(),
        *(each.contiguous() for each in links),
        candidates.shape[1],
        depth,
        DEPTH=triton.next_power_of_2(depth),
        num_warps=1,
    )
