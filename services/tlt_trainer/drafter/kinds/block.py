"""
Block drafters, DFlash and DSpark (arXiv 2607.05147), computed like SGLang's `models/dflash.py` and `models/dspark.py`.

One pass over the last token (the anchor) and masks gives the states of a block of drafts. A query attends to all others
of its block, before and behind it, and to the context before the anchor. Keys and values of the context are not
computed by the layers: every layer projects them from the states of the policy's layers, fused by fc and a norm.
Logits are those of the policy's head; a Markov head adds what follows from the token before each draft.

A captured state is that of each layer in `form.layers`, then the policy's last one, which is not read.

Shapes: P states of a pack, A blocks, Q queries of a block, N drafts, C elements of a captured state, H hidden size,
V vocabulary, K key-value heads, G queries' heads per key-value head, D head size.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from tlt_common.drafter.block import BlockFormat
from tlt_trainer.drafter import rope
from tlt_trainer.drafter.kinds.draft_model import AnyDrafter
from tlt_trainer.drafter.kinds.eagle import Mlp, Norm, reset
from tlt_trainer.drafter.kinds.markov import markov_of
from tlt_trainer.drafter.precision import widened

ANCHOR_EVERY = 8
"""States of a pack per block that is trained on. On the demo's model, a variant whose masks begin as the anchor had,
after 50 s of training, 5.1 expected tokens per round with 4, 5.0 with 8 and 4.8 with 16, whose steps are faster."""
REGRESSION_WEIGHT = 3.0
"""As for EAGLE. The same variant after 50 s: 5.0 tokens per round, 4.7 without."""
W1_STD = 0.5
"""Of the vectors of tokens before a draft. Those of drafts start at zero, so that the head adds nothing at first."""

Turn = tuple[Tensor, Tensor]
Context = tuple[Tensor, Tensor]
"""Keys and values, both (K, P, D)."""


class BlockAttention(nn.Module):
    """Grouped-query attention with normed queries and keys, over the context and the block itself."""

    def __init__(self, form: BlockFormat) -> None:
        super().__init__()
        self._head_dim = form.head_dim
        self.q_proj = nn.Linear(form.hidden_size, form.heads * form.head_dim, bias=False)
        self.k_proj = nn.Linear(form.hidden_size, form.kv_heads * form.head_dim, bias=False)
        self.v_proj = nn.Linear(form.hidden_size, form.kv_heads * form.head_dim, bias=False)
        self.o_proj = nn.Linear(form.heads * form.head_dim, form.hidden_size, bias=False)
        self.q_norm = Norm(form.head_dim, form.norm_eps)
        self.k_norm = Norm(form.head_dim, form.norm_eps)

    def context(self, fused_PH: Tensor, turn: Turn) -> Context:
        """Return keys and values of the context."""
        keys = rope.rotate(self.k_norm(self._split(self.k_proj(fused_PH))), *turn)
        return keys, self._split(self.v_proj(fused_PH))

    def forward(self, x_AQH: Tensor, context: Context, turn: Turn, seen_AP: Tensor) -> Tensor:
        blocks, queries, _ = x_AQH.shape
        x_BH = x_AQH.flatten(0, 1)
        q = rope.rotate(self.q_norm(self._split(self.q_proj(x_BH))), *turn)
        k, v = self.context(x_BH, turn)
        far_k, far_v = context
        q_KGAQD = q.view(len(k), -1, blocks, queries, self._head_dim) * self._head_dim**-0.5
        near_k, near_v = (x.view(len(k), 1, blocks, queries, self._head_dim) for x in (k, v))
        shape = (*q_KGAQD.shape[:-1], far_k.shape[1])
        far = widened(q_KGAQD.flatten(1, 3) @ far_k.transpose(1, 2)).view(shape)
        far = far.masked_fill(~seen_AP[:, None], float("-inf"))
        near = widened(q_KGAQD @ near_k.transpose(-1, -2))
        shares = torch.cat((far, near), dim=-1).softmax(-1).to(v.dtype)
        far_shares, near_shares = shares[..., :-queries], shares[..., -queries:]
        y = (far_shares.flatten(1, 3) @ far_v).view(q_KGAQD.shape) + near_shares @ near_v
        out: Tensor = self.o_proj(y.flatten(0, 1).permute(1, 2, 0, 3).flatten(2))
        return out

    def _split(self, x_BE: Tensor) -> Tensor:
        return x_BE.view(len(x_BE), -1, self._head_dim).transpose(0, 1)


class BlockLayer(nn.Module):
    """A decoder layer as in Qwen3."""

    def __init__(self, form: BlockFormat) -> None:
        super().__init__()
        self.self_attn = BlockAttention(form)
        self.mlp = Mlp(form)
        self.input_layernorm = Norm(form.hidden_size, form.norm_eps)
        self.post_attention_layernorm = Norm(form.hidden_size, form.norm_eps)

    def forward(self, x_AQH: Tensor, fused_PH: Tensor, turns: tuple[Turn, Turn], seen_AP: Tensor) -> Tensor:
        """Return the next states. `turns` are the rotations of the context and of the queries."""
        context = self.self_attn.context(fused_PH, turns[0])
        x_AQH = x_AQH + self.self_attn(self.input_layernorm(x_AQH), context, turns[1], seen_AP)
        out: Tensor = x_AQH + self.mlp(self.post_attention_layernorm(x_AQH))
        return out


class BlockDrafter(AnyDrafter):
    """
    A block drafter. Its initial weights depend on format and seed only: those of several trainers can be merged.

    Args:
        form: Its format.
        seed: Seed of the initial weights and of the choice of anchors.
    """

    default_passes: ClassVar[int] = 1
    regression_weight: ClassVar[float] = REGRESSION_WEIGHT

    form: BlockFormat

    def __init__(self, form: BlockFormat, *, seed: int = 0) -> None:
        super().__init__(form)
        self.fc = nn.Linear(len(form.layers) * form.hidden_size, form.hidden_size, bias=False)
        self.hidden_norm = Norm(form.hidden_size, form.norm_eps)
        self.layers = nn.ModuleList([BlockLayer(form) for _ in range(form.depth)])
        self.norm = Norm(form.hidden_size, form.norm_eps)
        self.markov_head = markov_of(form)
        self.choice = torch.Generator().manual_seed(seed)
        """Chooses anchors."""
        generator = torch.Generator().manual_seed(seed)
        reset(self, generator)
        for name, parameter in self.named_parameters():
            if name.endswith(".bias"):
                nn.init.zeros_(parameter)
        if self.markov_head is not None:
            nn.init.normal_(self.markov_head.markov_w1.weight, std=W1_STD, generator=generator)
            nn.init.zeros_(self.markov_head.markov_w2.weight)

    def drafts(self, passes: int | None = None) -> int:  # noqa: ARG002 - one pass gives them all
        return self.form.drafts

    def work(self, passes: int | None = None) -> float:  # noqa: ARG002 - one pass
        return self.form.block_queries / ANCHOR_EVERY

    def forward(
        self, anchors_A: Tensor, positions_A: Tensor, seen_AP: Tensor, captured_PC: Tensor, positions_P: Tensor,
        embedding_VH: Tensor,
    ) -> Tensor:  # fmt: skip
        """
        Return the states of the drafts, (A, N, H), from which the policy's head computes logits.

        Args:
            anchors_A: The last token before each block.
            positions_A: Position of that token.
            seen_AP: Whether each state of the pack precedes it.
            captured_PC: Captured states of the policy.
            positions_P: Positions of the captured states.
            embedding_VH: The policy's.
        """
        blocks, queries = len(anchors_A), self.form.block_queries
        fused_PH = self.hidden_norm(self.fc(captured_PC[:, : -self.form.hidden_size].to(self.fc.weight.dtype)))
        places = positions_A[:, None] + torch.arange(queries, device=positions_A.device)
        turns = self.angles(positions_P), self.angles(places.flatten())
        masks = torch.full((blocks, queries - 1), self.form.mask_token, device=anchors_A.device)
        x_AQH = functional.embedding(torch.cat((anchors_A[:, None], masks), dim=1), embedding_VH)
        for layer in self.layers:
            x_AQH = layer(x_AQH, fused_PH, turns, seen_AP)
        out: Tensor = self.norm(x_AQH[:, self.form.first_query :])
        return out

    def logits(self, hidden_ANH: Tensor, before_AN: Tensor, head_VH: Tensor) -> Tensor:
        """Return the logits of drafts, (A, N, V), given their states and the tokens before each of them."""
        logits_ANV = functional.linear(hidden_ANH, head_VH)
        return logits_ANV if self.markov_head is None else logits_ANV + self.markov_head(hidden_ANH, before_AN)
