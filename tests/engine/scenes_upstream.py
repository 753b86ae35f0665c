"""
SGLang's own verification beside ours, called without an engine: what our hooks are for.

SGLang's acceptance kernel for trees is compiled for GPUs. It is written out here in torch, after
`sgl_kernel/speculative/sampling.cuh` of 0.5.23, as are the renormalisations it runs behind.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from scipy.stats import chisquare
from torch import Tensor

from tlt_worker.engine.device import CPU
from tlt_worker.engine.filters import Cuts, truncate
from tlt_worker.engine.link import LINK_VARIABLE, LinkSettings
from tlt_worker.engine.penalties import Penalties, Penalty

BATCH, VOCABULARY, ALL = 20_000, 12, 1 << 30
DRAFTS, PARENTS = [0, 3, 5, 3, 7], [-1, 0, 0, 1, 1]
"""Two children of the root, two grandchildren below the first."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One setting, and the tree it is verified with."""

    temperature: float = 1.0
    top_k: int = ALL
    top_p: float = 1.0
    min_p: float = 0.0
    drafts: list[int] = field(default_factory=lambda: DRAFTS)
    custom: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    has_processor: bool = False
    penalties: Tensor | None = None


CASES = {
    "temperature": Case(temperature=0.7),
    "top-k with top-p": Case(top_k=4, top_p=0.7),
    "min-p": Case(min_p=0.3),
    "repeated siblings": Case(drafts=[0, 3, 3, 3, 7]),
}


async def upstream(work: Path) -> dict[str, Any]:
    del work
    os.environ.update({**CPU.variables(), LINK_VARIABLE: LinkSettings(directory="/nonexistent").to_json()})
    CPU.enter()
    torch.manual_seed(0)
    utils = _sglang()
    outcome: dict[str, Any] = {"argmax": len(set(_first_tokens(utils, Case())))}
    _as_on_a_gpu(utils)
    outcome["sglang"] = _judged(utils)
    outcome["counted"] = _counted_of_four()
    outcome["simulated"] = _simulated(utils)
    outcome["simulation"] = _refused_simulation()
    _install()
    outcome["ours"] = _judged(utils)
    return outcome


def _sglang() -> Any:
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


def _as_on_a_gpu(utils: Any) -> None:
    utils._verify_uses_greedy = lambda *, is_all_greedy, **_: is_all_greedy
    utils.tree_speculative_sampling_target_only = kernel
    utils.top_k_renorm_prob = lambda probs, ks: _cut(probs, ks, torch.ones(len(probs)))
    utils.top_p_renorm_prob = lambda probs, ps: _cut(probs, torch.full((len(probs),), ALL), ps)


def _cut(probs: Tensor, top_ks: Tensor, top_ps: Tensor) -> Tensor:
    return truncate(probs, Cuts(top_ks=top_ks, top_ps=top_ps, min_ps=torch.zeros(len(probs))))


def _install() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry

    from tlt_worker.engine import plugin

    plugin.install()
    HookRegistry.apply_hooks()


def _least_allowed(penalties: Penalties, req: Any) -> int:
    """Smallest least length that still forbids the end: one more than what was counted."""
    for least in range(1, 20):
        req.sampling_params.custom_params = {"tlt_penalty": Penalty(least_tokens=least).packed()}
        info = SimpleNamespace(temperatures=torch.ones(1, 1), acc_additive_penalties=None)
        penalties.apply([req], info)
        if info.acc_additive_penalties is not None and info.acc_additive_penalties[0, 1] < 0:
            return least - 1
    return 20


@dataclass(slots=True, weakref_slot=True)
class _Orchestrator:
    """As much as one of SGLang's penalisers needs."""

    only: Any
    device: str = "cpu"
    vocab_size: int = VOCABULARY

    def reqs(self) -> list[Any]:
        return [self.only]


def _counted_of_four() -> dict[str, int]:
    """Tokens counted towards `min_new_tokens` after a round that brought four, by SGLang and by us."""
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.sampling.penaltylib.min_new_tokens import BatchedMinNewTokensPenalizer

    custom = {"tlt_penalty": Penalty(least_tokens=9).packed()}
    req = SimpleNamespace(
        rid="r",
        origin_input_ids=[0],
        output_ids=[5, 6, 7, 8],
        eos_token_ids=set(),
        tokenizer=SimpleNamespace(additional_stop_token_ids=None, eos_token_id=1),
        sampling_params=SimpleNamespace(min_new_tokens=9, stop_token_ids={1}, custom_params=custom),
    )
    orchestrator = _Orchestrator(req)
    theirs = BatchedMinNewTokensPenalizer(orchestrator)
    theirs.prepare_if_required()
    info = SimpleNamespace(penalizer_orchestrator=theirs)
    ScheduleBatch.cumulate_penalty_output_tokens(SimpleNamespace(reqs=[req], device="cpu", sampling_info=info))
    ours = Penalties(VOCABULARY)
    ours.begin([req], "cpu")
    return {"sglang": int(theirs.len_output_tokens), "ours": _least_allowed(ours, req)}


def _simulated(utils: Any) -> float:
    """Mean accept length where SGLang is told to simulate one of 2."""
    from sglang.srt.speculative import spec_utils

    spec_utils.SIMULATE_ACC_LEN = 2.0
    try:
        return float(_verify(utils, Case(drafts=[0, 1, 2, 1, 2]))[1].float().mean())
    finally:
        spec_utils.SIMULATE_ACC_LEN = -1.0


def _refused_simulation() -> str:
    from tlt_worker.engine import plugin

    os.environ[plugin.SIMULATION_VARIABLE] = "2"
    try:
        return _refusal(plugin.install)
    finally:
        del os.environ[plugin.SIMULATION_VARIABLE]


def kernel(
    *, predicts: Tensor, accept_index: Tensor, accept_token_num: Tensor, candidates: Tensor, retrive_index: Tensor,
    retrive_next_token: Tensor, retrive_next_sibling: Tensor, uniform_samples: Tensor,
    uniform_samples_for_final_sampling: Tensor, target_probs: Tensor, draft_probs: Tensor,
    threshold_single: float, threshold_acc: float, **_: Any,
) -> None:  # fmt: skip
    """One request after the other: children against their cumulative mass, repeated ones counted again."""
    child_N, sibling_N = retrive_next_token[0].tolist(), retrive_next_sibling[0].tolist()
    tokens_N, p_NV = candidates[0].tolist(), target_probs[0].tolist()  # all requests of a case have the same
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


def _judged(utils: Any) -> dict[str, Any]:
    """For each setting how likely first tokens as these are under the exact distribution; and what is not a setting."""
    said: dict[str, Any] = {name: _likelihood(utils, case) for name, case in CASES.items()}
    said["seed"] = _share_of_plain_tokens(utils)
    said["threshold"] = _refusal(lambda: _with_threshold(utils))
    said["processor"] = _refusal(lambda: _verify(utils, Case(has_processor=True)))
    # Said once, token 3 would be impossible: a draft of it twice must not pass.
    strong = torch.zeros(BATCH, VOCABULARY)
    strong[:, 3] = 50.0
    penalised = Case(drafts=[0, 3, 5, 3, 7], penalties=strong, custom={"tlt_speculation_off": True})
    said["accepted of a penalised request"] = int(_verify(utils, penalised)[1].max()) - 1
    return said


def _likelihood(utils: Any, case: Case) -> float:
    counts = torch.bincount(torch.tensor(_first_tokens(utils, case)), minlength=VOCABULARY).double()
    exact = _exact(case)[0].double()
    possible = exact > 0
    if counts[~possible].any():
        return 0.0
    expected = exact[possible] / exact[possible].sum() * counts.sum()
    return float(chisquare(counts[possible].numpy(), expected.numpy()).pvalue)


def _exact(case: Case) -> Tensor:
    one = torch.ones(1)
    cuts = Cuts(top_ks=(one * case.top_k).long(), top_ps=one * case.top_p, min_ps=one * case.min_p)
    return truncate(torch.softmax(_logits()[:1] / case.temperature, -1), cuts)


def _logits() -> Tensor:
    return torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(4)).expand(BATCH * len(PARENTS), -1)


def _share_of_plain_tokens(utils: Any) -> float:
    """Share of seeded requests whose first token is the one SGLang's plain sampler draws."""
    from sglang.srt.layers.sampler import multinomial_with_seed

    seeds = torch.arange(BATCH)
    plain = multinomial_with_seed(torch.log(_exact(Case())).expand(BATCH, -1), seeds, torch.full((BATCH,), 8))
    return float((plain.view(-1) == torch.tensor(_first_tokens(utils, Case(seed=0)))).float().mean())


def _with_threshold(utils: Any) -> None:
    settings = utils.get_spec()
    settings.speculative_accept_threshold_single = 0.2
    try:
        _verify(utils, Case())
    finally:
        settings.speculative_accept_threshold_single = 1.0


def _refusal(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except Exception as error:  # noqa: BLE001 - the test reads what it says
        return str(error)
    return ""


def _first_tokens(utils: Any, case: Case) -> list[int]:
    predicts, _, path = _verify(utils, case)
    tokens: list[int] = predicts[path[:, 0].long()].tolist()
    return tokens


def _verify(utils: Any, case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """Verify a batch of equal requests at position 8; only seeds differ."""
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
    output = SimpleNamespace(next_token_logits=_logits().clone())
    predicts, lengths, path = utils.eagle_sample(verify_input, batch, output)
    return predicts, lengths, path
