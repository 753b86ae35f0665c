"""
Lossless verification of drafts, with the filters of plain sampling.

SGLang 0.5.23 takes the argmax on a CPU whatever the temperature, applies top-k and top-p one after the other where
its plain sampler applies them jointly, and ignores min-p. The hooks here make verification draw from exactly the
distribution `layers/sampler.py` draws from.

Shapes: B requests, N nodes (tokens to verify) per request, D depth (accepted path, root included), V vocabulary.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

_verifying: ContextVar[Any] = ContextVar("tlt_verifying", default=None)
"""SGLang's sampling settings of the batch being verified; None outside verification."""


def target_probs(
    logits_MV: Tensor, temperatures_M1: Tensor, top_ks_M: Tensor, top_ps_M: Tensor, min_ps_M: Tensor | None
) -> Tensor:
    """
    Return the distribution [M, V] that plain sampling draws from, normalised.

    Top-k and top-p cut the same sorted probabilities, and min-p cuts what is below its share of the largest, as
    SGLang's `top_k_top_p_min_p_sampling_from_probs_torch` does.
    """
    probs_MV = torch.softmax(logits_MV.float() / temperatures_M1, dim=-1)
    size = probs_MV.shape[-1]
    keeps_all = min_ps_M is None or not bool((min_ps_M > 0).any())
    if keeps_all and bool((top_ks_M >= size).all()) and bool((top_ps_M >= 1.0).all()):
        return probs_MV
    sorted_MV, token_MV = probs_MV.sort(dim=-1, descending=True)
    before_MV = sorted_MV.cumsum(-1) - sorted_MV
    rank_V = torch.arange(size, device=probs_MV.device)
    dropped_MV = (rank_V >= top_ks_M.view(-1, 1)) | (before_MV > top_ps_M.view(-1, 1))
    if min_ps_M is not None:
        dropped_MV |= sorted_MV < sorted_MV[:, :1] * min_ps_M.view(-1, 1)
    kept_MV = sorted_MV.masked_fill(dropped_MV, 0.0)
    return torch.zeros_like(probs_MV).scatter_(-1, token_MV, kept_MV / kept_MV.sum(-1, keepdim=True))


def draw(weights_BV: Tensor, coins_B: Tensor) -> Tensor:
    """Draw one token per row by inverting the cumulative weights at `coins_B`; weights need not be normalised."""
    cumulative_BV = weights_BV.double().cumsum(-1)
    point_B1 = coins_B.double().view(-1, 1) * cumulative_BV[:, -1:]
    # Rounding may put the point at the very end, behind which only tokens without weight may lie.
    last_B1 = weights_BV.shape[-1] - 1 - (weights_BV.flip(-1) > 0).int().argmax(-1, keepdim=True)
    return torch.minimum(torch.searchsorted(cumulative_BV, point_B1, right=True), last_B1).view(-1)


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
    Speculative sampling of chains (Leviathan et al. 2023, Algorithm 1). Names follow SGLang's kernel.

    Draft x of position t was drawn from q_t and is kept with probability min(1, p_t(x) / q_t(x)); at the first that is
    not, the token comes from max(p - q, 0); after the last, from p. `draft_probs` [B, N - 1, V] are the q. Mutates
    `predicts` [B * N], `accept_index` [B, N] and `accept_token_num` [B].
    """
    del retrive_next_token, retrive_next_sibling, threshold_single, threshold_acc, deterministic
    batch, nodes = candidates.shape
    rows_B = torch.arange(batch, device=candidates.device)
    drafts_BN = candidates[:, 1:].to(torch.int64)
    kept_B = torch.zeros(batch, dtype=torch.int64, device=candidates.device)
    if nodes > 1:
        p_BN = target_probs[:, :-1].gather(2, drafts_BN.unsqueeze(-1)).squeeze(-1)
        q_BN = draft_probs[:, : nodes - 1].gather(2, drafts_BN.unsqueeze(-1)).squeeze(-1)
        kept_BN = uniform_samples[:, : nodes - 1] * q_BN < p_BN
        kept_B = kept_BN.to(torch.int64).cumprod(1).sum(1)
    final_BV = _after_chain(target_probs, draft_probs, kept_B)
    tokens_BN = torch.cat([drafts_BN, drafts_BN.new_zeros(batch, 1)], 1)
    tokens_BN[rows_B, kept_B] = draw(final_BV, uniform_samples_for_final_sampling)
    predicts[retrive_index.reshape(-1).to(torch.int64)] = tokens_BN.reshape(-1).to(predicts.dtype)
    on_path_BN = torch.arange(nodes, device=candidates.device) <= kept_B.unsqueeze(1)
    accept_index.copy_(torch.where(on_path_BN, retrive_index, -1))
    accept_token_num.copy_(kept_B)


def _after_chain(target_probs: Tensor, draft_probs: Tensor, kept_B: Tensor) -> Tensor:
    """Weights [B, V] of the token after `kept_B` drafts: what p has more than q, or p after the last draft."""
    rows_B, nodes = torch.arange(len(kept_B), device=kept_B.device), target_probs.shape[1]
    p_BV = target_probs[rows_B, kept_B]
    if nodes == 1:
        return p_BV
    q_BV = draft_probs[rows_B, kept_B.clamp(max=nodes - 2)] * (kept_B < nodes - 1).unsqueeze(1)
    residual_BV = (p_BV - q_BV).clamp_(min=0.0)
    # p = q up to rounding leaves nothing: the draft was then refused by rounding too, and p is right.
    return torch.where(residual_BV.sum(1, keepdim=True) > 0, residual_BV, p_BV)


def accept_tree(
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
    Sampled walk down trees whose drafts are the drafter's top tokens, not samples. Names follow SGLang's kernel.

    Each visited node has one coin. Its children are tried in order against their cumulative target mass, so that child
    x is taken with probability p(x); if none is, the token comes from p without the children. A token repeated among
    siblings counts once. Only thresholds of 1 are lossless. Mutates `predicts`, `accept_index`, `accept_token_num`.
    """
    del draft_probs, deterministic
    if threshold_single != 1.0 or threshold_acc != 1.0:
        raise ValueError("acceptance thresholds below 1 change the distribution")
    depth = accept_index.shape[1]
    tokens_BN, index_BN = candidates.tolist(), retrive_index.tolist()
    child_BN, sibling_BN = retrive_next_token.tolist(), retrive_next_sibling.tolist()
    flat, last_BV, ends = predicts.view(-1), target_probs[:, 0].clone(), []
    for request, coins_N in enumerate(uniform_samples.tolist()):
        path, tried = _walk(
            tokens_BN[request], child_BN[request], sibling_BN[request], target_probs[request], coins_N, depth
        )
        nodes = [index_BN[request][node] for node in path]
        flat[nodes[:-1]] = torch.tensor([tokens_BN[request][node] for node in path[1:]]).to(flat)
        accept_index[request, : len(path)] = torch.tensor(nodes).to(accept_index)
        accept_token_num[request] = len(path) - 1
        last_BV[request] = target_probs[request, path[-1]]
        last_BV[request, tried] = 0.0
        ends.append(nodes[-1])
    flat[torch.tensor(ends, device=flat.device)] = draw(last_BV, uniform_samples_for_final_sampling).to(flat.dtype)


def _walk(
    tokens_N: list[int], child_N: list[int], sibling_N: list[int], probs_NV: Tensor, coins_N: list[float], depth: int
) -> tuple[list[int], list[int]]:
    """Return one request's accepted nodes, root first, and the tokens refused below the last one."""
    path: list[int] = [0]
    while True:
        node, mass, tried = path[-1], 0.0, list[int]()
        child = child_N[node] if len(path) < depth else -1
        while child != -1:
            token = tokens_N[child]
            share = 0.0 if token in tried else float(probs_NV[node, token])
            mass += share
            if share > 0.0 and coins_N[node] < mass:
                break
            tried.append(token)
            child = sibling_N[child]
        if child == -1:
            return path, tried
        path.append(child)


def sample_with_plain_filters(
    original: Callable[..., Any], verify_input: Any, batch: Any, *args: Any, **kw: Any
) -> Any:
    """Around `eagle_utils.eagle_sample`: tell the functions below whose settings are being verified."""
    token = _verifying.set(batch.sampling_info)
    try:
        return original(verify_input, batch, *args, **kw)
    finally:
        _verifying.reset(token)


def filtered_softmax(original: Callable[..., Tensor], logits: Tensor, *args: Any, **kw: Any) -> Tensor:
    """Around `sampling_softmax`: while verifying, the final distribution; for drafts, as it was."""
    info = _verifying.get()
    if info is None:
        return original(logits, *args, **kw)
    nodes = logits.shape[0] // info.temperatures.shape[0]
    temperatures, top_ks, top_ps, min_ps = (
        torch.repeat_interleave(setting, nodes, dim=0)
        for setting in (info.temperatures, info.top_ks, info.top_ps, info.min_ps)
    )
    return target_probs(logits, temperatures, top_ks, top_ps, min_ps if info.need_min_p_sampling else None)


def skip_second_filter(original: Callable[..., Tensor], probs: Tensor, *args: Any, **kw: Any) -> Tensor:
    """Around the top-k and top-p renormalisations: `filtered_softmax` has done both, jointly."""
    return probs if _verifying.get() is not None else original(probs, *args, **kw)


def keep_probs(probs: Tensor, *_: Any) -> Tensor:
    """Stand for the top-k and top-p renormalisations where SGLang has none."""
    return probs


def is_greedy_batch(*, is_all_greedy: bool, **_: bool) -> bool:
    """Replaces `_verify_uses_greedy`: a CPU samples as well."""
    return is_all_greedy


def sample_chain(original: Callable[..., None], *args: Any, **kw: Any) -> None:
    """Around the Triton kernel of chains: without CUDA, `accept_chain`."""
    (original if kw["candidates"].is_cuda else accept_chain)(*args, **kw)


def row_argmax(scores: Tensor) -> Tensor:
    """Replaces a Triton kernel that draws drafts: the index of each row's largest score."""
    return scores.argmax(-1)
