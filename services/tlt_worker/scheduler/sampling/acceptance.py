"""
Lossless acceptance of drafts, in torch, with the signatures of SGLang's kernels.

There are two rules. Drafts that are a function of the context (trees, the drafter's most likely token, retrieved text)
are verified by sampling: the target's own token is drawn at every node, and the walk follows it. Drafts sampled from
the drafter's distribution are verified by rejection, which accepts more of them. Under either rule, seeded requests
draw with their seed's noise, so that their tokens equal those of plain decoding.

Shapes: B requests, N nodes (tokens to verify) per request, D depth (accepted path, root included), R requests still
walking, V vocabulary.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

from tlt_worker.scheduler.sampling.cuts import Cuts
from tlt_worker.scheduler.sampling.draw import UNSEEDED, draw, drawn
from tlt_worker.scheduler.sampling.filters import truncate
from tlt_worker.scheduler.sampling.forms import Form, form_of
from tlt_worker.scheduler.sampling.walk import DraftTree, Walked, follow, parents_of, walk

NO_DRAFT = -1
"""Token id that is never drawn: marks drafts that must not be accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRound:
    """Properties of the verified batch that SGLang does not pass to its kernels."""

    positions: Tensor
    """[B, N]: position of each node's token in its sequence."""
    cuts: Cuts | None
    """Filters applied before sampling; None for no filters."""
    seeds: Tensor | None
    """[B], UNSEEDED for requests without a seed; None if no request has one."""


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
    Accept drafts that were not sampled. Replaces SGLang's kernel, whose parameter names it keeps, on every device.

    The kernel tests the children of a node in turn against their cumulative mass. Here the token is drawn first, with
    the node's coin [B, N], and then looked up among them: the same distribution, and correct also if a token is
    repeated among siblings, which the kernel counts twice. The round's filters apply to `target_probs` [B, N, V].
    Mutates `predicts` [B * N], `accept_index` [B, D] and `accept_token_num` [B].

    In torch, this takes 51 kernels, 1 per level of the tree, and one per doubling of its nodes. On a GPU, one
    kernel draws and one walks.

    Raises:
        ValueError: A threshold is below 1: such acceptance changes the distribution.
    """
    del uniform_samples_for_final_sampling, draft_probs, deterministic
    _refuse_thresholds(threshold_single, threshold_acc)
    now = verifying.get()

    if target_probs.is_cuda:
        from tlt_worker.scheduler.sampling.accept_kernels import follow_trees  # Triton has no CPU

        links = (retrive_index, retrive_next_token, retrive_next_sibling)
        said_BN = _drawn_everywhere(now, target_probs, uniform_samples)
        follow_trees(predicts, accept_index, accept_token_num, candidates, *links, said_BN)
        return

    def draw_at(rows_R: Tensor, nodes_R: Tensor) -> Tensor:
        probs_RV, coins_R = target_probs[rows_R, nodes_R], uniform_samples[rows_R, nodes_R]
        if now is None:
            return draw(probs_RV, coins_R)
        if now.cuts is not None:  # not for all nodes before the walk: most are never visited, and sorting takes longest
            probs_RV = truncate(probs_RV, now.cuts.of(rows_R))
        seeds_R = None if now.seeds is None else now.seeds[rows_R]
        return drawn(probs_RV, seeds_R, now.positions[rows_R, nodes_R], lambda: draw(probs_RV, coins_R))

    parents_BN = parents_of(retrive_next_token.to(torch.int64), retrive_next_sibling.to(torch.int64))
    tree, depth = DraftTree(tokens=candidates, parents=parents_BN), accept_index.shape[1]
    if form_of(target_probs) is Form.FIXED:
        # At every node at once: a GPU has room for more rows, but the levels of a walk wait for each other.
        walked = follow(tree, depth, _drawn_everywhere(now, target_probs, uniform_samples))
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
    Accept sampled chains by rejection (Leviathan et al. 2023, Algorithm 1). Keeps the parameter names of SGLang's
    kernel.

    Draft x at position t was drawn from q_t and is accepted with probability min(1, p_t(x) / q_t(x)); at the first
    rejection the token is drawn from max(p - q, 0); after the last draft, from p. `draft_probs` [B, N - 1, V] holds q.
    Seeded requests follow their noise instead; negative candidates are missing drafts. Mutates `predicts` [B * N],
    `accept_index` [B, N] and `accept_token_num` [B].

    In torch, this takes 48 kernels, or 26 without drafts. On a GPU, it is a single kernel.

    Raises:
        ValueError: A threshold is below 1.
    """
    del retrive_next_token, retrive_next_sibling, deterministic
    _refuse_thresholds(threshold_single, threshold_acc)
    now = verifying.get()
    target_probs = _cut(now, target_probs)
    if target_probs.is_cuda:
        from tlt_worker.scheduler.sampling.accept_kernels import accept_chains

        seeds_B, said_BN = said_of(now, target_probs)
        coins = (uniform_samples, uniform_samples_for_final_sampling)
        outputs = (predicts, accept_index, accept_token_num)
        accept_chains(*outputs, candidates, retrive_index, *coins, target_probs, draft_probs, seeds_B, said_BN)
        return
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
    """Verify all chains: seeded ones by noise, the others by rejection."""
    seeds_B, drawn_BN = said_of(now, target_probs)
    if seeds_B is None or drawn_BN is None:
        return _rejected(candidates, target_probs, draft_probs, coins_BN, last_coins_B)
    followed = _by_noise(candidates, drawn_BN)
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
    """Verify all chains at once: return the accepted drafts, and one draw for the token after them."""
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


def said_of(now: VerifyRound | None, target_probs: Tensor) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """
    Return the seeds [B] and the tokens [B, N] drawn with their noise at every node; None if no request has a seed.

    Rows without a seed are undefined.
    """
    if now is None or now.seeds is None:
        return None, None
    return now.seeds, _at_all_nodes(now, target_probs, lambda: torch.zeros_like(now.positions).flatten())


def _by_noise(candidates: Tensor, drawn_BN: Tensor) -> Walked:
    """Follow the tokens drawn at the nodes of chains, up to the first draft that differs from the drawn token."""
    is_kept_BN = drawn_BN[:, :-1] == candidates[:, 1:]
    kept_B1 = is_kept_BN.to(torch.int64).cumprod(1).sum(1, keepdim=True)
    order_N = torch.arange(candidates.shape[1], device=candidates.device)
    return Walked(nodes=torch.where(order_N <= kept_B1, order_N, -1), tokens=drawn_BN)


def _drawn_everywhere(now: VerifyRound | None, target_probs: Tensor, coins_BN: Tensor) -> Tensor:
    """Return the tokens [B, N] drawn at all nodes."""
    target_probs = _cut(now, target_probs)

    def by_coins() -> Tensor:
        return draw(target_probs.flatten(0, 1), coins_BN.flatten())

    return by_coins().view_as(coins_BN) if now is None else _at_all_nodes(now, target_probs, by_coins)


def _at_all_nodes(now: VerifyRound, target_probs: Tensor, otherwise: Callable[[], Tensor]) -> Tensor:
    """Return the tokens [B, N] drawn at all nodes with the noise of seeds, or as `otherwise` does; see `drawn`."""
    seeds_M = None if now.seeds is None else now.seeds.view(-1, 1).expand_as(now.positions).flatten()
    return drawn(target_probs.flatten(0, 1), seeds_M, now.positions.flatten(), otherwise).view_as(now.positions)


def _cut(now: VerifyRound | None, target_probs: Tensor) -> Tensor:
    """Return the distributions at all nodes, filtered."""
    if now is None or now.cuts is None:
        return target_probs
    batch, nodes = target_probs.shape[:2]
    rows_M = torch.arange(batch * nodes, device=target_probs.device) // nodes
    return truncate(target_probs.flatten(0, 1), now.cuts.of(rows_M)).view_as(target_probs)


def _refuse_thresholds(single: float, accumulated: float) -> None:
    if single != 1.0 or accumulated != 1.0:
        raise ValueError(f"acceptance thresholds {single} and {accumulated} change the distribution; accepted: 1")


def _beyond(p_RV: Tensor, q_RV: Tensor) -> Tensor:
    """Return max(p - q, 0), or p if that is zero everywhere: then p = q, and the draft was rejected by rounding."""
    more_RV = (p_RV - q_RV).clamp_(min=0.0)
    return torch.where(more_RV.sum(1, keepdim=True) > 0, more_RV, p_RV)


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
