"""
A block of ours and SGLang's own, logit by logit: from the same states of the target, on the same cache.

Both run in this process, in a group of one, on SGLang's KV pool and the attention of an engine on a CPU. SGLang's side
is its own model classes, loaded by themselves, and its own workers' code: `TargetHiddenKvInjector` and
`DraftBlockProposer` for DSpark, `DFlashWorkerV2` for DFlash up to the drafts' states.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig

from tests.engine import block
from tests.engine.block import Kind
from tests.engine.scenes.agreement import Batch, enter
from tlt_common.drafter.reading import format_of
from tlt_worker.checkpoints.drafter import load_drafter, write_served_config

LENGTHS = (9, 4, 13)
"""Positions of each request whose states the drafter has."""
SLOTS, WIDTH = 128, 32
KINDS = {
    "dflash": Kind(block_size=8),
    "dspark": Kind(block_size=7, markov="vanilla"),
    "dspark, gated": Kind(block_size=5, markov="gated", draft_layers=1),
    "dspark, rnn": Kind(block_size=6, markov="rnn", draft_layers=3),
    "dspark, anchor without a draft": Kind(block_size=4, markov="vanilla", anchored=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """Logits of all drafts of three requests."""

    difference: float
    """Largest difference of a logit, also of what the Markov head makes of it."""
    spread: float
    """Standard deviation of the logits."""
    shape: tuple[int, ...]


class Runner:
    """What workers use of a model runner."""

    def __init__(self, model: Any, slot_table: Tensor) -> None:
        from sglang.srt.layers.attention.intel_amx_backend import IntelAMXAttnBackend
        from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

        attention = model.layers[0].self_attn
        self.model, self.device, self.use_mla_backend = model, torch.device("cpu"), False
        self.token_to_kv_pool = MHATokenToKVPool(
            SLOTS, 1, torch.float32, attention.num_kv_heads, attention.head_dim, len(model.layers), "cpu", False
        )
        self.req_to_token_pool = SimpleNamespace(req_to_token=slot_table)
        self.model_config = SimpleNamespace(
            context_len=WIDTH, num_attention_heads=attention.num_heads, hf_config=model.config, vocab_size=24
        )
        self.kv_index_translator = SimpleNamespace(bind_own_plan=lambda batch: None, plan=lambda **_: Plan())
        self.spec_algorithm = self.decode_cuda_graph_runner = None
        self.attn_backend = IntelAMXAttnBackend(self)
        self.attn_backend.needs_cpu_seq_lens = True

    def forward(self, batch: Any) -> Any:
        from sglang.srt.layers import radix_attention

        radix_attention.get_attn_backend = lambda: self.attn_backend
        self.attn_backend.init_forward_metadata(batch)
        output = self.model.forward(batch.input_ids, batch.positions, batch, input_embeds=batch.input_embeds)
        return SimpleNamespace(logits_output=output, can_run_graph=False)


class Plan:
    """A plan of cache slots whose ids are those of the pool."""

    def bind(self, *_: Any, **__: Any) -> None:
        """Leave a batch's slots as they are."""


async def forward(work: Path) -> Mapping[str, Forward]:
    """Compare blocks of every kind."""
    target = block.write_target(work / "target", vocabulary=24, hidden=48, layers=8, family="qwen3", kv_heads=4)
    enter(target)
    from sglang.srt.speculative.dflash_info import DFlashVerifyInput

    DFlashVerifyInput.tree_topk = 1  # the CPU's backend asks for it, although no CPU runs SGLang's worker
    torch.Tensor.record_stream = lambda *_: None  # type: ignore[method-assign] # there are no streams
    with torch.no_grad():
        return {
            name: _compared(work / name, target, kind, next_seed)
            for next_seed, (name, kind) in enumerate(KINDS.items())
        }


def _compared(directory: Path, target: Path, kind: Kind, seed: int) -> Forward:
    block.write_drafter(directory, target, kind, noise=0.3, seed=seed)
    torch.manual_seed(seed)
    slot_table = (torch.randperm(SLOTS - 1) + 1)[: len(LENGTHS) * WIDTH].view(len(LENGTHS), WIDTH).to(torch.int32)
    states = [torch.randn(length, len(kind.layers) * 48) for length in LENGTHS]
    anchors_B, length_B = torch.tensor([3, 20, 11]), torch.tensor(LENGTHS)
    shared = _shared(target)
    batch = Batch(
        reqs=[None] * len(LENGTHS), seq_lens=length_B, seq_lens_cpu=length_B, req_pool_indices=torch.arange(3),
        spec_info=SimpleNamespace(bonus_tokens=anchors_B, nxt_kv_lens_cpu=None), device="cpu",
        sampling_info=SimpleNamespace(is_all_greedy=True, sampling_seed=None),
    )  # fmt: skip
    ours = list(_ours(directory, target, kind, shared, slot_table, states, batch))
    theirs = list(_theirs(directory, kind, shared, slot_table, states, batch))
    return Forward(
        difference=max(float((one - other).abs().max()) for one, other in zip(ours, theirs, strict=True)),
        spread=float(theirs[0].std()),
        shape=tuple(ours[0].shape),
    )


def _shared(target: Path) -> Any:
    """Return the target's embedding and head, as modules of SGLang's."""
    from sglang.srt.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding

    tensors = load_file(target / "model.safetensors")
    embed, head = VocabParallelEmbedding(24, 48), ParallelLMHead(24, 48)
    for module, name in ((embed, "model.embed_tokens.weight"), (head, "lm_head.weight")):
        module.weight.data[:24] = tensors[name]
    return SimpleNamespace(embed_tokens=embed, lm_head=head, get_input_embeddings=lambda: embed)


def _ours(
    directory: Path, target: Path, kind: Kind, shared: Any, slot_table: Tensor, states: list[Tensor], batch: Batch
) -> Iterator[Tensor]:
    """Yield the logits of the drafts, then those with the bias of the drafts before."""
    from tlt_worker.scheduler.blocks.worker import TltBlockWorker
    from tlt_worker.scheduler.models import block as served

    form = format_of(
        json.loads((directory / "config.json").read_text()), json.loads((target / "config.json").read_text())
    )
    (directory / "served").mkdir()
    write_served_config(directory / "served", form, {})
    config = AutoConfig.from_pretrained(directory / "served")
    model = getattr(served, config.architectures[0])(config).float().eval()
    model.load_weights(load_drafter(directory, form).fitted(form))
    model.attach_shared_modules(embed_tokens=shared.embed_tokens, lm_head=shared.lm_head)
    worker: Any = TltBlockWorker.__new__(TltBlockWorker)
    worker.draft_runner, worker.speculative_num_steps = Runner(model, slot_table), kind.drafts
    worker.req_to_token_pool = worker.draft_runner.req_to_token_pool
    positions_T = torch.cat([torch.arange(length) for length in LENGTHS])
    worker._write(torch.cat(states), positions_T, _slots(slot_table))
    seen: list[Tensor] = []
    drawn = worker._drawn

    def see(batch: Batch, logits_BNV: Tensor, *, first: int) -> Any:
        seen.append(logits_BNV)
        return drawn(batch, logits_BNV, first=first)

    worker._drawn = see
    hidden_BNH = worker._states(batch)[:, model.first_query :]
    yield model.draft_logits(hidden_BNH)
    worker._block(batch)
    yield torch.cat(seen, 1)


def _theirs(
    directory: Path, kind: Kind, shared: Any, slot_table: Tensor, states: list[Tensor], batch: Batch
) -> Iterator[Tensor]:
    from sglang.srt.models.dflash import DFlashDraftModel
    from sglang.srt.models.dspark import Qwen3DSparkModel

    made = Qwen3DSparkModel if kind.markov else DFlashDraftModel
    model = made(AutoConfig.from_pretrained(directory)).float().eval()
    if kind.markov:
        model.confidence_head = None  # it takes no part in the logits; the files have none
    model.load_weights(load_file(directory / "model.safetensors").items())
    runner = Runner(model, slot_table)
    hidden = (_dspark if kind.markov else _dflash)(model, runner, kind, shared, slot_table, states, batch)
    if not kind.markov:
        weight_VH = shared.lm_head.weight
        logits_BNV = torch.matmul(hidden.to(weight_VH.dtype), weight_VH[: shared.lm_head.num_embeddings].T)
        yield from [logits_BNV.view(3, kind.drafts, -1)[..., :24]] * 2
        return
    model.attach_shared_modules(embed_tokens=shared.embed_tokens, lm_head=shared.lm_head)
    logits_BNV = model.compute_base_logits(hidden)[0].view(3, kind.drafts, -1)
    yield logits_BNV
    head, before_B, found = model.markov_head, batch.spec_info.bonus_tokens, []
    hidden_BNH = hidden.view(3, kind.drafts, -1)
    state = head.init_state(hidden_BNH)
    for place in range(kind.drafts):
        bias_BV, state = head.step_bias(before_B, hidden_states=hidden_BNH[:, place], state=state)
        found.append((logits_BNV[:, place] + bias_BV).unsqueeze(1))
        before_B = found[-1].argmax(-1).view(-1)
    yield torch.cat(found, 1)


def _dspark(
    model: Any, runner: Runner, kind: Kind, shared: Any, slot_table: Tensor, states: list[Tensor], batch: Batch
) -> Tensor:
    """Return the drafts' states [B * N, H]."""
    from sglang.srt.speculative.draft_worker_common import make_draft_block_spec_info
    from sglang.srt.speculative.dspark_components.dspark_draft import DraftBlockProposer
    from sglang.srt.speculative.dspark_components.dspark_kv_inject import TargetHiddenKvInjector

    queries = kind.drafts + kind.first
    offsets = torch.arange(queries)
    injector = TargetHiddenKvInjector(
        draft_model=model, draft_model_runner=runner, model_runner=runner, device="cpu",
        verify_num_draft_tokens=kind.drafts + 1, block_pos_offsets=offsets,
    )  # fmt: skip
    for row, hidden in enumerate(states):
        at = torch.arange(len(hidden))
        injector.inject_target_hidden(target_hidden=hidden, cache_loc=slot_table[row, at], positions=at)
    proposer = DraftBlockProposer(
        draft_model=model, draft_model_runner=runner, gamma=kind.drafts, mask_token_id=23,
        draft_block_spec_info=make_draft_block_spec_info(draft_token_num=queries, device=torch.device("cpu")),
        tp_sync=SimpleNamespace(sync=lambda site, tokens: tokens), random_seed=1, greedy_draft=True,
    )  # fmt: skip
    positions_BQ = batch.seq_lens.view(-1, 1) + offsets
    window = SimpleNamespace(
        positions_2d=positions_BQ, kv_loc_plan=Plan(),
        verify_cache_loc_2d=slot_table.gather(1, positions_BQ).to(torch.int64),
    )  # fmt: skip
    model.embed_tokens = shared.embed_tokens
    found: Tensor = proposer._run_forward(
        batch=batch, draft_input=batch.spec_info, verify_window=window, bs=3, device="cpu",
        embed_module=shared.embed_tokens,
    ).raw_hidden  # fmt: skip
    return found


class _DraftedError(Exception):
    """Carries the drafts' states out of a worker that would go on to verify them."""


def _dflash(
    model: Any, runner: Runner, kind: Kind, shared: Any, slot_table: Tensor, states: list[Tensor], batch: Batch
) -> Tensor:
    """Return the drafts' states [B * N, H]."""
    from sglang.srt.speculative import dflash_worker_v2
    from sglang.srt.speculative.dflash_info_v2 import DFlashDraftInputV2
    from sglang.srt.speculative.draft_worker_common import make_draft_block_spec_info

    worker: Any = dflash_worker_v2.DFlashWorkerV2.__new__(dflash_worker_v2.DFlashWorkerV2)
    worker.draft_model, worker.draft_model_runner, worker.block_size = model, runner, kind.block_size
    for row, hidden in enumerate(states):
        at = torch.arange(len(hidden))
        worker._append_target_hidden_sequential(
            model.project_target_hidden(hidden), at, slot_table[row, at].to(torch.int64)
        )
    worker.device, worker.model_runner, worker._mask_token_id = "cpu", runner, 23
    worker._target_worker = SimpleNamespace(
        model_runner=SimpleNamespace(model=shared, kv_index_translator=runner.kv_index_translator)
    )
    worker._block_pos_offsets = torch.arange(kind.block_size)
    worker._draft_block_spec_info = make_draft_block_spec_info(
        draft_token_num=kind.block_size, device=torch.device("cpu")
    )
    worker._full_embed_gpu, worker._noise_embed_scale, worker.use_compact_draft_cache = None, 1.0, False
    worker._draft_block_ids_buf, worker._use_triton_prepare_block = None, False
    worker.selector = worker.lilicorr = worker._draft_sampler = worker.draft_parallel_layout = None
    worker._is_domino, worker._validate_phase1_sampling_support = False, lambda batch: None
    dflash_worker_v2.draft_tp_context = lambda layout: nullcontext()

    def drafted(*, hidden_states: Tensor, lm_head: Any) -> Tensor:
        del lm_head
        raise _DraftedError(hidden_states)

    worker._greedy_sample_from_vocab_parallel_head = drafted
    batch.spec_info = DFlashDraftInputV2(
        topk_p=torch.empty(3, 0), topk_index=torch.empty(3, 0), bonus_tokens=batch.spec_info.bonus_tokens,
        new_seq_lens=batch.seq_lens, hidden_states=torch.empty(3, 0),
    )  # fmt: skip
    batch.forward_mode = SimpleNamespace(is_extend=lambda: False, is_idle=lambda: False)
    try:
        worker.forward_batch_generation(batch)
    except _DraftedError as found:
        states_MH: Tensor = found.args[0]
        return states_MH
    raise AssertionError("SGLang's worker drafted in another way")


def _slots(slot_table: Tensor) -> Tensor:
    return torch.cat([slot_table[row, :length] for row, length in enumerate(LENGTHS)])
