"""
Passes of an EAGLE drafter on a CPU, which has no graphs. Imported inside SGLang's processes only.

A pass of a one-layer drafter is a dozen small operators, but as a pass of SGLang's model runner its batch objects,
attention metadata and modules take four times as long as these. A CUDA graph removes that overhead on a GPU. This class
does so on a CPU, for drafters of one plain layer. Other drafters, and contexts that need much memory, use SGLang's
passes.

It also omits unused results. A step's keys and values are overwritten by the round's draft-extend, so they are not
written to the cache: the context is gathered once per round, in float32, whose kernel for a single query is the faster
one, and the steps append to it. In a draft-extend, all tokens of a round need keys and values, but only the last
accepted one needs a state.

Written against SGLang 0.5.23: `models/llama_eagle.py`, `models/llama.py`. Shapes: B requests, M tokens (of a step, one
for each request; of a draft-extend, all that were verified), L positions of the longest context, K drafts, H query
heads, G key/value heads, X all of them, D head size, E hidden size, F inner size, V vocabulary, S cache slots.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from sglang.srt.layers.quantization.unquant import UnquantizedLinearMethod
from sglang.srt.layers.rotary_embedding.base import RotaryEmbedding
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from sglang.srt.models.llama_eagle import LlamaDecoderLayer, LlamaForCausalLMEagle
from sglang.srt.runtime_context import get_parallel
from torch import Tensor
from torch.nn import functional

from tlt_worker.scheduler.models.packed_weights import linear
from tlt_worker.scheduler.sampling.draw import drawn, race
from tlt_worker.scheduler.sampling.forms import Form, form_of

CONTEXT_BYTES = 64 * 2**20
"""Most that the keys and values of a round may take. The steps read all of it each, which then takes the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerChain:
    """Drafts chains with the layer of an SGLang EAGLE model, whose weights may change."""

    model: Any
    pool: Any
    """SGLang's cache of the drafter's keys and values."""
    slot_table: Tensor
    """[requests, context]: the cache slot of each position."""
    _buffers: dict[str, Tensor] = field(default_factory=dict)
    """Buffers reused across rounds: new allocations would have to be mapped by the kernel each time."""

    @classmethod
    def of(cls, runner: Any, slot_table: Tensor) -> "EagerChain | None":
        """Return the chain of a supported draft model on a CPU; None for others."""
        model, pool = runner.model, runner.token_to_kv_pool
        if form_of(slot_table) is not Form.FEW or get_parallel().tp_size > 1 or not _is_plain(model):
            return None
        keys = pool.get_key_buffer(0)
        if isinstance(pool, SWAKVPool) or keys.dim() != 3 or keys.dtype != model.model.fc.weight.dtype:
            return None
        return cls(model=model, pool=pool, slot_table=slot_table)

    def fits(self, batch: Any) -> bool:
        """Whether the context of a batch is small enough."""
        keys = self.pool.get_key_buffer(0)
        wanted: int = len(batch.reqs) * int(batch.seq_lens.max()) * 8 * keys[0].numel()
        return wanted <= CONTEXT_BYTES

    def draft(self, batch: Any, steps: int, *, samples: bool) -> tuple[Tensor, Tensor | None]:
        """
        Return the drafts [B, K] and, if they are sampled, their distributions [B, K, V].

        The first draft is taken from the batch's draft input.
        """
        start, info = batch.spec_info, batch.sampling_info
        tokens, probs = [start.topk_index[:, :1].to(torch.int64)], [start.draft_probs]
        hidden_BE, lengths_B = start.hidden_states, batch.seq_lens.to(torch.int64)
        if steps > 1:
            context = self._context(batch.req_pool_indices, lengths_B, steps - 1)
            turns = self._turns(lengths_B.view(-1, 1) + torch.arange(steps - 1))
        for step in range(steps - 1):
            made_BXD, input_BE = self._projected(tokens[-1].view(-1), hidden_BE, [each[:, step] for each in turns])
            context.append(made_BXD[:, self._heads :])
            hidden_BE = self._rest(input_BE, context, made_BXD[:, : self._heads])
            logits_BV = self._logits(hidden_BE)
            if not samples:
                tokens.append(logits_BV.argmax(-1, keepdim=True))
                continue
            probs_BV = torch.softmax(logits_BV.div_(info.temperatures), -1)
            token_B = drawn(probs_BV, info.sampling_seed, lengths_B + (step + 1), lambda: race(probs_BV))  # noqa: B023
            if info.is_any_greedy:  # their verification keeps the target's most likely token only
                token_B = torch.where(info.top_ks <= 1, probs_BV.argmax(-1), token_B)
            tokens.append(token_B.view(-1, 1))
            probs.append(probs_BV)
        return torch.cat(tokens, 1), torch.stack(probs, 1) if samples else None

    def extend(self, batch: Any, result: Any) -> tuple[Tensor, Tensor]:
        """
        Process a verified round: write the keys and values of its tokens to the cache.

        Returns the logits [B, V] and states [B, E] after each request's last accepted token.
        """
        slots_M, tokens_M = batch.out_cache_loc.to(torch.int64), result.next_token_ids.to(torch.int64)
        batch_size, lengths_B = len(batch.reqs), batch.seq_lens.to(torch.int64)
        nodes = len(slots_M) // batch_size
        turns = self._turns((lengths_B.view(-1, 1) + torch.arange(nodes)).view(-1))
        made_MXD, input_ME = self._projected(tokens_M, result.logits_output.hidden_states, turns)
        keys_MGD, values_MGD = made_MXD[:, self._heads :].chunk(2, 1)
        self.pool.get_key_buffer(0).index_copy_(0, slots_M, keys_MGD)
        self.pool.get_value_buffer(0).index_copy_(0, slots_M, values_MGD)
        accepted_B = result.accept_lens.to(torch.int64)
        last_B = torch.arange(batch_size) * nodes + accepted_B - 1
        context = self._context(batch.req_pool_indices, lengths_B + accepted_B, 0)
        states_BE = self._rest(input_ME[last_B], context, made_MXD[last_B, : self._heads])
        return self._logits(states_BE), states_BE

    @property
    def _heads(self) -> int:
        heads: int = self.model.model.layers[0].self_attn.num_heads
        return heads

    def _projected(self, token_M: Tensor, hidden_ME: Tensor, turns: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return rotated queries, keys and values [M, H + 2 G, D], and the layer's input [M, E]."""
        inner = self.model.model
        attention = inner.layers[0].self_attn
        input_ME = inner.fc(torch.cat((functional.embedding(token_M, inner.embed_tokens.weight), hidden_ME), -1))
        turned, size = attention.num_heads + attention.num_kv_heads, attention.head_dim
        made_MXD = _linear(attention.qkv_proj, input_ME).view(len(token_M), -1, size)
        low, high = made_MXD[:, :turned].chunk(2, -1)
        cosine, sine = turns
        parts = (low * cosine - high * sine, high * cosine + low * sine)
        made_MXD[:, :turned] = torch.cat(parts, -1)
        return made_MXD, input_ME

    def _rest(self, input_BE: Tensor, context: "_Context", queries_BHD: Tensor) -> Tensor:
        """Return the layer's output [B, E], given attention's."""
        layer = self.model.model.layers[0]
        attention, norm = layer.self_attn, layer.post_attention_layernorm
        attended_BE = context.attended(queries_BHD, attention.attn.scaling).to(input_BE.dtype)
        residual_BE = input_BE + _linear(attention.o_proj, attended_BE)
        normed_BE = functional.rms_norm(residual_BE, residual_BE.shape[-1:], norm.weight, norm.variance_epsilon)
        gate_BF, up_BF = _linear(layer.mlp.gate_up_proj, normed_BE).chunk(2, -1)
        return residual_BE + _linear(layer.mlp.down_proj, functional.silu(gate_BF) * up_BF)

    def _turns(self, places: Tensor) -> Sequence[Tensor]:
        """Return cosine and sine [..., 1, D / 2] of positions."""
        table: Tensor = self.model.model.layers[0].self_attn.rotary_emb.cos_sin_cache
        return table[places.clamp_(max=len(table) - 1)].unsqueeze(-2).chunk(2, -1)

    def _logits(self, hidden_BE: Tensor) -> Tensor:
        logits_BV = linear(hidden_BE, self.model.lm_head.weight)
        if getattr(self.model, "is_reduced", False):  # the head covers a part of the vocabulary
            spread_BV: Tensor = self.model.spread(logits_BV)
            return spread_BV.float()
        return logits_BV[:, : self.model.config.vocab_size].float()

    def _context(self, rows_B: Tensor, lengths_B: Tensor, steps: int) -> "_Context":
        """Gather the keys and values of each request's sequence, with room for those of the steps."""
        batch, longest, ends = len(rows_B), int(lengths_B.max()), lengths_B.view(-1, 1)
        order_L = torch.arange(longest)
        is_past_BL = order_L >= ends
        slots_BL = self.slot_table[rows_B.to(torch.int64), :longest].to(torch.int64)
        mask = None
        if int(lengths_B.min()) < longest:
            slots_BL = torch.where(is_past_BL, slots_BL[:, :1], slots_BL)  # rows hold stale slots beyond their end
            mask = torch.zeros(batch, 1, 1, longest + steps)
            mask[:, 0, 0, :longest].masked_fill_(is_past_BL, -torch.inf)
        return _Context(
            keys=self._gathered("keys", self.pool.get_key_buffer(0), slots_BL, steps),
            values=self._gathered("values", self.pool.get_value_buffer(0), slots_BL, steps),
            mask=mask,
            used=longest,
        )

    def _gathered(self, name: str, buffer_SGD: Tensor, slots_BL: Tensor, steps: int) -> Tensor:
        """Return the cached rows [B, L + K, G, D] in float32. The last K are not written yet."""
        batch, longest = slots_BL.shape
        inner = buffer_SGD.shape[1:]
        rows = self._buffer("rows", (batch * longest, *inner), buffer_SGD.dtype)
        torch.index_select(buffer_SGD, 0, slots_BL.view(-1), out=rows)
        found = self._buffer(name, (batch, longest + steps, *inner), torch.float32)
        found[:, :longest].copy_(rows.view(batch, longest, *inner))
        return found

    def _buffer(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        wanted = torch.Size(shape).numel()
        buffer = self._buffers.get(name)
        if buffer is None or buffer.numel() < wanted:
            buffer = self._buffers[name] = torch.empty(wanted + wanted // 4, dtype=dtype)
        return buffer[:wanted].view(*shape)


@dataclass(slots=True, kw_only=True)
class _Context:
    """Keys and values of a round's requests. They are already rotated, so their order does not matter."""

    keys: Tensor
    """[B, L + K, G, D]: each request's sequence, followed by the steps'. Float32, as `values`."""
    values: Tensor
    mask: Tensor | None
    """[B, 1, 1, L + K]: -inf beyond a sequence's end; None if all have the same length."""
    used: int
    """Number of written columns."""

    def append(self, made_BXD: Tensor) -> None:
        """Append keys and values [B, 2 G, D] of one token of each request."""
        keys_BGD, values_BGD = made_BXD.chunk(2, 1)
        self.keys[:, self.used].copy_(keys_BGD)
        self.values[:, self.used].copy_(values_BGD)
        self.used += 1

    def attended(self, queries_BHD: Tensor, scale: float) -> Tensor:
        """Return the attention output [B, H * D] of each query over all written columns, float32."""
        batch, heads, size = queries_BHD.shape
        groups = self.keys.shape[2]
        found_BGXD = functional.scaled_dot_product_attention(
            queries_BHD.float().view(batch, groups, heads // groups, size),
            self.keys[:, : self.used].transpose(1, 2),
            self.values[:, : self.used].transpose(1, 2),
            attn_mask=None if self.mask is None else self.mask[..., : self.used],
            scale=scale,
        )
        return found_BGXD.reshape(batch, heads * size)


def _linear(module: Any, input_BE: Tensor) -> Tensor:
    return linear(input_BE, module.weight, module.bias)


def _is_plain(model: Any) -> bool:
    """Whether a draft model is an EAGLE model of one Llama layer with only the features that `EagerChain` supports."""
    if not isinstance(model, LlamaForCausalLMEagle) or len(model.model.layers) != 1:
        return False
    layer = model.model.layers[0]
    if type(layer) is not LlamaDecoderLayer:
        return False
    attention = layer.self_attn
    linears = attention.qkv_proj, attention.o_proj, layer.mlp.gate_up_proj, layer.mlp.down_proj
    rotary = attention.rotary_emb
    return (
        all(type(each.quant_method) is UnquantizedLinearMethod for each in linears)
        and not any(getattr(each, "use_intel_amx_backend", False) for each in (*linears, model.lm_head))
        and type(rotary).forward_native is RotaryEmbedding.forward_native
        and rotary.is_neox_style
        and rotary.rotary_dim == rotary.head_size
    )
