"""
Hooks that make SGLang draw every token of a response by the same rule: first, drafted and verified tokens.

SGLang 0.5.23 takes the argmax on a CPU at any temperature, applies top-k and top-p one after the other where its plain
sampler applies them jointly, ignores min-p and logit processors, and draws different tokens from the same seed.

Shapes: B requests, N nodes (tokens to verify) per request, M = B * N, V vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tlt_common.errors import EngineError
from tlt_worker.scheduler.sampling.acceptance import NO_DRAFT, VerifyRound, verifying
from tlt_worker.scheduler.sampling.cuts import cuts_of
from tlt_worker.scheduler.sampling.draw import UNSEEDED, drawn, race
from tlt_worker.scheduler.sampling.filters import truncate
from tlt_worker.scheduler.sent import sent_once


def seeds_of(reqs: Sequence[Any], device: Any) -> Tensor | None:
    """
    Return the seeds [B] of SGLang's requests, UNSEEDED for requests without one; None if no request has one.

    SGLang itself supports seeds in its deterministic mode only, which gives all unseeded requests the same one.
    """
    seeds = [req.sampling_params.sampling_seed for req in reqs]
    if all(seed is None for seed in seeds):
        return None
    return sent_once(tuple(UNSEEDED if seed is None else seed for seed in seeds), device, torch.int64)


def is_blocked(req: Any) -> bool:
    """Whether an SGLang request must not accept drafts."""
    custom = req.sampling_params.custom_params or {}
    return bool(custom.get("tlt_speculation_off", False))


def sample_with_plain_filters(
    original: Callable[..., Any], verify_input: Any, batch: Any, *args: Any, **kw: Any
) -> Any:
    """
    Wrap `eagle_utils.eagle_sample`: pass the batch's settings to the kernels, and remove blocked requests' drafts.

    Raises:
        EngineError: A request has a custom logit processor, which verification would ignore.
    """
    info = batch.sampling_info
    if info is None or batch.forward_mode.is_idle():
        return original(verify_input, batch, *args, **kw)
    if info.has_custom_logit_processor:
        raise EngineError("custom logit processors are not supported, since they are not applied to drafts")
    nodes = verify_input.draft_token_num
    verify_input.draft_token = _without_blocked(verify_input.draft_token, batch.reqs, nodes)
    seeds_B, info.sampling_seed = info.sampling_seed, None  # SGLang would derive its coins from it, for all requests
    now = VerifyRound(positions=verify_input.positions.view(-1, nodes), cuts=cuts_of(info), seeds=seeds_B)
    token = verifying.set(now)
    try:
        return original(verify_input, batch, *args, **kw)
    finally:
        verifying.reset(token)
        info.sampling_seed = seeds_B


def _without_blocked(drafts_M: Tensor, reqs: Sequence[Any], nodes: int) -> Tensor:
    blocked = [is_blocked(req) for req in reqs]
    if nodes == 1 or not any(blocked):
        return drafts_M
    drafts_BN = drafts_M.view(-1, nodes).clone()
    blocked_B = sent_once(tuple(blocked), drafts_M.device, torch.bool)
    drafts_BN[:, 1:].masked_fill_(blocked_B.view(-1, 1), NO_DRAFT)
    return drafts_BN.view(-1)


def skip_second_filter(original: Callable[..., Tensor], probs: Tensor, *args: Any, **kw: Any) -> Tensor:
    """Wrap the top-k and top-p renormalizations: the walk applies both jointly at the nodes it visits."""
    return probs if verifying.get() is not None else original(probs, *args, **kw)


def keep_probs(probs: Tensor, *_: Any) -> Tensor:
    """Replace the top-k and top-p renormalizations on devices where SGLang has none."""
    return probs


def is_greedy_batch(*, is_all_greedy: bool, **_: bool) -> bool:
    """Replace `_verify_uses_greedy`: sample on a CPU as well."""
    return is_all_greedy


def sample_plainly(self: Any, probs: Tensor, sampling_info: Any, positions: Tensor, *_: Any) -> tuple[Tensor, None]:
    """
    Replace `Sampler._sample_from_probs`, which draws first tokens and all tokens of rounds without drafts.

    SGLang's filters differ between its backends, its seeds do not work with min-p or flashinfer, and with filters its
    noise is indexed by rank, which depends on the batch's other requests. Returns tokens [B] and no mask.
    """
    del self
    cuts = cuts_of(sampling_info)
    probs = probs if cuts is None else truncate(probs, cuts)
    return drawn(probs, sampling_info.sampling_seed, positions, lambda: race(probs)).to(torch.int32), None


def propose(
    original: Callable[..., tuple[Tensor, Tensor]],
    probs: Tensor,
    num_samples: int = 1,
    *,
    sampling_seed: Tensor | None = None,
    positions: Tensor | None = None,
    draft_step: int = 0,
) -> tuple[Tensor, Tensor]:
    """
    Wrap `fast_sample`: draw drafts of seeded requests with the noise that verification will use.

    The target then draws the same token wherever the two distributions mostly agree. Returns the drafts' probabilities
    and the drafts, [B, num_samples] each.
    """
    if sampling_seed is None or positions is None or num_samples > 1:
        return original(probs, num_samples, draft_step=draft_step)

    def by_chance() -> Tensor:
        return original(probs, num_samples, draft_step=draft_step)[1].view(-1)

    tokens_B1 = drawn(probs, sampling_seed, positions, by_chance).view(-1, 1)
    return probs.gather(1, tokens_B1), tokens_B1


def row_argmax(scores: Tensor) -> Tensor:
    """Replace a Triton kernel that draws drafts: return the index of each row's largest score."""
    return scores.argmax(-1)
