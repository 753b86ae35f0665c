"""
SGLang's own verification, called without an engine.

Its acceptance kernel for trees is compiled for GPUs only. It is reimplemented here in torch, after
`sgl_kernel/speculative/sampling.cuh` of 0.5.23, as are the renormalizations that run before it.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tlt_worker.scheduler.sampling.cuts import Cuts
from tlt_worker.scheduler.sampling.filters import truncate

BATCH, VOCABULARY, ALL = 20_000, 12, 1 << 30
DRAFTS, PARENTS = [0, 3, 5, 3, 7], [-1, 0, 0, 1, 1]
"""Two children of the root, and two children of the first of them."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One setting, and the tree that is verified."""

    temperature: float = 1.0
    top_k: int = ALL
    top_p: float = 1.0
    min_p: float = 0.0
    drafts: list[int] = field(default_factory=lambda: DRAFTS)
    custom: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    has_processor: bool = False
    penalties: Tensor | None = None


def load_sglang() -> Any:
    """Return SGLang's verification module, set up as an engine would."""
    from sglang.srt import runtime_context
    from sglang.srt.layers import dp_attention
    from sglang.srt.speculative import eagle_utils

    settings = SimpleNamespace(
        speculative_use_rejection_sampling=False,
        speculative_accept_threshold_single=1.0,
        speculative_accept_threshold_acc=1.0,
    )
    eagle_utils.get_spec = lambda: settings
    dp_attention.is_dp_attention_enabled = lambda: False
    runtime_context.get_parallel = lambda: SimpleNamespace(tp_group=SimpleNamespace(world_size=1))
    return eagle_utils


def act_as_on_a_gpu(utils: Any) -> None:
    """Make SGLang run its GPU code path."""
    utils._verify_uses_greedy = lambda *, is_all_greedy, **_: is_all_greedy
    utils.tree_speculative_sampling_target_only = kernel
    utils.top_k_renorm_prob = lambda probs, ks: _cut(probs, ks, torch.ones(len(probs)))
    utils.top_p_renorm_prob = lambda probs, ps: _cut(probs, torch.full((len(probs),), ALL), ps)


def _cut(probs: Tensor, top_ks: Tensor, top_ps: Tensor) -> Tensor:
    return truncate(probs, Cuts(top_ks=top_ks, top_ps=top_ps, min_ps=torch.zeros(len(probs))))


def kernel(
    *, predicts: Tensor, accept_index: Tensor, accept_token_num: Tensor, candidates: Tensor, retrive_index: Tensor,
    retrive_next_token: Tensor, retrive_next_sibling: Tensor, uniform_samples: Tensor,
    uniform_samples_for_final_sampling: Tensor, target_probs: Tensor, draft_probs: Tensor,
    threshold_single: float, threshold_acc: float, **_: Any,
) -> None:  # fmt: skip
    """Verify requests one by one: children against their cumulative mass; repeated children count again."""
    child_N, sibling_N = retrive_next_token[0].tolist(), retrive_next_sibling[0].tolist()
    tokens_N, p_NV = candidates[0].tolist(), target_probs[0].tolist()  # identical for all requests of a case
    for row, coins in enumerate(uniform_samples.tolist()):
        node, path = 0, [0]
        while (child := child_N[node]) != -1 and len(path) < accept_index.shape[1]:
            mass = 0.0
            while child != -1:
                share = p_NV[node][tokens_N[child]]
                mass += share
                if coins[node] <= mass / threshold_acc or share >= threshold_single:
                    break
                draft_probs[row, node, tokens_N[child]] = share
                child = sibling_N[child]
            if child == -1:
                break
            predicts[retrive_index[row, node]] = tokens_N[child]
            node = child
            path.append(node)
        rest = (target_probs[row, node] - draft_probs[row, node]).clamp(min=0)
        predicts[retrive_index[row, node]] = int(torch.multinomial(rest, 1))
        accept_index[row, : len(path)] = retrive_index[row, path].to(accept_index.dtype)
        accept_token_num[row] = len(path) - 1
    del uniform_samples_for_final_sampling


def logits() -> Tensor:
    """Return the logits of every node of every request."""
    return torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(4)).expand(BATCH * len(PARENTS), -1)


def verify(utils: Any, case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """Verify a batch of identical requests at position 8; only their seeds differ."""
    nodes = len(PARENTS)
    child, sibling = [-1] * nodes, [-1] * nodes
    for node in range(nodes - 1, 0, -1):
        sibling[node], child[PARENTS[node]] = child[PARENTS[node]], node
    depths = torch.tensor([0, 1, 1, 2, 2])
    verify_input = SimpleNamespace(
        draft_token=torch.tensor(case.drafts).repeat(BATCH),
        draft_token_num=nodes,
        max_tree_depth=3,
        tree_topk=2,
        draft_probs=None,
        positions=(8 + depths).repeat(BATCH),
        retrieve_index=torch.arange(BATCH * nodes).view(BATCH, nodes),
        retrieve_next_token=torch.tensor(child).expand(BATCH, -1),
        retrieve_next_sibling=torch.tensor(sibling).expand(BATCH, -1),
    )
    info = SimpleNamespace(
        temperatures=torch.full((BATCH, 1), case.temperature),
        top_ks=torch.full((BATCH,), case.top_k),
        top_ps=torch.full((BATCH,), case.top_p),
        min_ps=torch.full((BATCH,), case.min_p),
        need_top_k_sampling=case.top_k != ALL,
        need_top_p_sampling=case.top_p < 1,
        need_min_p_sampling=case.min_p > 0,
        sampling_seed=None if case.seed is None else torch.arange(BATCH) + case.seed,
        is_all_greedy=False,
        acc_additive_penalties=case.penalties,
        acc_scaling_penalties=None,
        logit_bias=None,
        has_custom_logit_processor=case.has_processor,
        has_watermark_candidates=False,
    )
    req = SimpleNamespace(sampling_params=SimpleNamespace(custom_params=case.custom))
    batch = SimpleNamespace(
        device="cpu",
        forward_mode=SimpleNamespace(is_idle=lambda: False),
        seq_lens=torch.full((BATCH,), 8),
        sampling_info=info,
        reqs=[req] * BATCH,
        return_logprob=False,
    )
    output = SimpleNamespace(next_token_logits=logits().clone())
    predicts, lengths, path = utils.eagle_sample(verify_input, batch, output)
    return predicts, lengths, path
