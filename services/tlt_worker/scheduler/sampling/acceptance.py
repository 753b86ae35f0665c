"""
Lossless acceptance of drafts, in torch, with the signatures of SGLang's kernels.

There are two rules. Drafts that are a function of the context (trees, the drafter's most likely token, retrieved text)
are verified by sampling: the target's own token is drawn at every node, and the walk follows it. Drafts sampled from
the drafter's distribution are verified by rejection, which accepts more of them. Under either rule a request with a
seed draws with its noise, so that its tokens are those of plain decoding.

Shapes: B requests, N nodes (tokens to verify) per request, D depth (accepted path, root included), R requests still
walking, V vocabulary.
"""

from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

from tlt_worker.scheduler.sampling.cuts import Cuts
from tlt_worker.scheduler.sampling.draw import UNSEEDED, draw, drawn
from tlt_worker.scheduler.sampling.filters import truncate
from tlt_worker.scheduler.sampling.forms import Form, form_of
from tlt_worker.scheduler.sampling.walk import DraftTree, Walked, follow, parents_of, walk


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRound:
    """Properties of the verified batch that SGLang does not pass to its kernels."""

    positions: Tensor
    """[B, N]: position of each node's token in its sequence."""
    cuts: Cuts | None
    """Filters applied before sampling; None: no filters."""
    seeds: Tensor | None
    """[B], UNSEEDED for requests without a seed; None: no request has one."""


verifying: ContextVar[VerifyRound | None] = ContextVar("tlt_verifying", default=None)
"""The round being verified; None outside verification."""


def tree_speculative_sampling_target_only(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    uniform_samples: Tensor,
    uniform_samples_for_final_sampling: Tensor,
    target_probs: Tensor,
    draft_probs: Tensor,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> None:
    """
    Accept drafts that were not sampled. Parameter names are those of SGLang's kernel, which this replaces on every
    device.

    The kernel tests the children of a node in turn against their cumulative mass. Here the token is drawn first, with
    the node's coin [B, N], and then looked up among them: the same distribution, and correct also if a token is
    repeated among siblings, which the kernel counts twice. The round's filters apply to `target_probs` [B, N, V].
    Mutates `predicts` [B * N], `accept_index` [B, D] and `accept_token_num` [B].

    On a GPU it launches 55 kernels, 1 per level of the tree, and one per doubling of its nodes.

    Raises:
        ValueError: A threshold is below 1: such acceptance changes the distribution.
    """
    del uniform_samples_for_final_sampling, draft_probs, deterministic
    _refuse_thresholds(threshold_single, threshold_acc)
    now = verifying.get()

    def draw_at(rows_R: Tensor, nodes_R: Tensor, probs_RV: Tensor | None = None) -> Tensor:
        probs_RV = _cut(now, target_probs[rows_R, nodes_R] if probs_RV is None else probs_RV, rows_R)
        coins_R = uniform_samples[rows_R, nodes_R]
        if now is None or now.seeds is None:
            return draw(probs_RV, coins_R)
        return drawn(probs_RV, now.seeds[rows_R], now.positions[rows_R, nodes_R], lambda: draw(probs_RV, coins_R))

    parents_BN = parents_of(retrive_next_token.to(torch.int64), retrive_next_sibling.to(torch.int64))
    tree, depth = DraftTree(tokens=candidates, parents=parents_BN), accept_index.shape[1]
    if form_of(target_probs) is Form.FIXED:
        # At every node at once: a GPU has room for more rows, but the levels of a walk wait for each other.
        drawn_M = draw_at(*_every(target_probs), target_probs.flatten(0, 1))
        walked = follow(tree, depth, drawn_M.view_as(candidates))
    else:
        walked = walk(tree, depth, draw_at)
    _write(walked, predicts, accept_index, accept_token_num, retrive_index)


def accept_chain(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    uniform_samples: Tensor,
    uniform_samples_for_final_sampling: Tensor,
    target_probs: Tensor,
    draft_probs: Tensor,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> None:
    """
    Accept sampled chains by rejection (Leviathan et al. 2023, Algorithm 1). Parameter names are those of SGLang's
    kernel.

    Draft x at position t was drawn from q_t and is accepted with probability min(1, p_t(x) / q_t(x)); at the first
    rejection the token is drawn from max(p - q, 0); after the last draft, from p. `draft_probs` [B, N - 1, V] are the
    q. Requests with a seed follow their noise instead; negative candidates are not drafts. Mutates `predicts` [B * N],
    `accept_index` [B, N] and `accept_token_num` [B].

    On a GPU it launches 48 kernels, or 26 without drafts.

    Raises:
        ValueError: A threshold is below 1.
    """
    del retrive_next_token, retrive_next_sibling, deterministic
    _refuse_thresholds(threshold_single, threshold_acc)
    now = verifying.get()
    if now is not None and now.cuts is not None:
        rows_M, _ = _every(target_probs)
        target_probs = truncate(target_probs.flatten(0, 1), now.cuts.of(rows_M)).view_as(target_probs)
    walked = _verified(now, candidates, target_probs, draft_probs, uniform_samples, uniform_samples_for_final_sampling)
    _write(walked, predicts, accept_index, accept_token_num, retrive_index)


def _verified(
    now: VerifyRound | None,
    candidates: Tensor,
    target_probs: Tensor,
    draft_probs: Tensor,
    coins_BN: Tensor,
    last_coins_B: Tensor,
) -> Walked:
    """Verify all chains: those with a seed by its noise, the others by rejection."""
    seeds_B = None if now is None else now.seeds
    if now is None or seeds_B is None:
        return _rejected(candidates, target_probs, draft_probs, coins_BN, last_coins_B)
    followed = _by_noise(candidates, target_probs, now.positions, seeds_B)
    is_mine_B = seeds_B != UNSEEDED
    if form_of(seeds_B) is Form.FEW and is_mine_B.all():
        return followed
    walked = _rejected(candidates, target_probs, draft_probs, coins_BN, last_coins_B)
    return Walked(
        nodes=torch.where(is_mine_B.view(-1, 1), followed.nodes, walked.nodes),
        tokens=torch.where(is_mine_B.view(-1, 1), followed.tokens, walked.tokens),
    )


def _rejected(
    candidates: Tensor, target_probs: Tensor, draft_probs: Tensor, coins_BN: Tensor, last_coins_B: Tensor
) -> Walked:
    """Verify all chains at once: which drafts are accepted, and one draw for the token after them."""
    batch, nodes = candidates.shape
    every_B = torch.arange(batch, device=candidates.device)
    order_N = torch.arange(nodes, device=candidates.device)
    tokens_BN = candidates.to(torch.int64).roll(-1, dims=1)  # the draft after each node
    kept_B, after_BV = torch.zeros_like(every_B), target_probs[:, 0]
    if nodes > 1:
        at_BN1 = tokens_BN[:, :-1].clamp(min=0).unsqueeze(-1)
        p_BN, q_BN = target_probs[:, :-1].gather(2, at_BN1), draft_probs[:, : nodes - 1].gather(2, at_BN1)
        is_draft_BN = (tokens_BN >= 0) & (order_N < nodes - 1)
        is_kept_BN = (coins_BN[:, :-1] * q_BN.squeeze(-1) < p_BN.squeeze(-1)) & is_draft_BN[:, :-1]
        kept_B = is_kept_BN.to(torch.int64).cumprod(1).sum(1)
        after_BV = target_probs[every_B, kept_B]
        q_BV = draft_probs[every_B, kept_B.clamp(max=nodes - 2)] * is_draft_BN[every_B, kept_B].unsqueeze(1)
        after_BV = _beyond(after_BV, q_BV)
    tokens_BN[every_B, kept_B] = draw(after_BV, last_coins_B)
    return Walked(nodes=torch.where(order_N <= kept_B.unsqueeze(1), order_N, -1), tokens=tokens_BN)


def _by_noise(candidates: Tensor, target_probs: Tensor, positions: Tensor, seeds: Tensor) -> Walked:
    """
    Follow the tokens drawn with the noise of seeds, at every node at once; rows without a seed hold nothing of use.

    A chain's walk ends before the first draft that is not the token drawn.
    """
    batch, nodes = candidates.shape
    probs_MV, seeds_M = target_probs.flatten(0, 1), seeds.view(-1, 1).expand(-1, nodes).flatten()
    drawn_BN = drawn(probs_MV, seeds_M, positions.flatten(), lambda: torch.zeros_like(seeds_M)).view(batch, nodes)
    is_kept_BN = drawn_BN[:, :-1] == candidates[:, 1:]
    kept_B1 = is_kept_BN.to(torch.int64).cumprod(1).sum(1, keepdim=True)
    order_N = torch.arange(nodes, device=candidates.device)
    return Walked(nodes=torch.where(order_N <= kept_B1, order_N, -1), tokens=drawn_BN)


def _every(probs_BNV: Tensor) -> tuple[Tensor, Tensor]:
    """Return row and node of every node of a batch, [B * N] each."""
    batch, nodes = probs_BNV.shape[:2]
    every_M = torch.arange(batch * nodes, device=probs_BNV.device)
    return every_M // nodes, every_M % nodes


def _refuse_thresholds(single: float, accumulated: float) -> None:
    if single != 1.0 or accumulated != 1.0:
        raise ValueError(f"acceptance thresholds {single} and {accumulated} change the distribution; accepted: 1")


def _beyond(p_RV: Tensor, q_RV: Tensor) -> Tensor:
    """Return max(p - q, 0), or p if that is zero everywhere: then p = q, and the draft was rejected by rounding."""
    more_RV = (p_RV - q_RV).clamp_(min=0.0)
    return torch.where(more_RV.sum(1, keepdim=True) > 0, more_RV, p_RV)


def _cut(now: VerifyRound | None, probs_RV: Tensor, rows_R: Tensor) -> Tensor:
    # Not for all nodes before the walk: most are never visited, and sorting is the most expensive step.
    if now is None or now.cuts is None:
        return probs_RV
    return truncate(probs_RV, now.cuts.of(rows_R))


def _write(
    walked: Walked, predicts: Tensor, accept_index: Tensor, accept_token_num: Tensor, retrive_index: Tensor
) -> None:
    is_on_path_BD = walked.nodes >= 0
    index_BD = retrive_index.to(torch.int64).gather(1, walked.nodes.clamp(min=0))
    # An extra element receives the values after the ends.
    flat = torch.cat([predicts, predicts.new_zeros(1)])
    into_BD = torch.where(is_on_path_BD, index_BD, len(predicts))
    flat.scatter_(0, into_BD.view(-1), walked.tokens.view(-1).to(flat.dtype))
    predicts.copy_(flat[:-1])
    accept_index.copy_(torch.where(is_on_path_BD, index_BD, -1))
    accept_token_num.copy_(walked.kept)
