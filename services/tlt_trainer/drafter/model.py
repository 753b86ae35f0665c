"""
The EAGLE draft layer (arXiv 2401.15077), computed as SGLang's LlamaForCausalLMEagle computes it.

One Llama decoder layer without its first norm, on fc([embedding of the next token ; last hidden state]); its output
stands for the next hidden state and goes to the policy's own head, without a final norm. Parameter names are those
of SGLang's checkpoint. Embedding and head belong to the policy and are no part of this module.

Shapes: B windows, T states, H hidden size, F size of the MLP, N heads, K key-value heads, D elements of a head.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from tlt_trainer.drafter import rope
from tlt_trainer.drafter.shape import DrafterShape

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(queries BNTD, keys BKTD, values BKTD) -> BNTD. Which keys a query sees is the caller's business."""

INIT_GAIN = 0.5
"""Of fc and the input projections. The two output projections begin at zero, so that the layer begins as fc alone:
of the starts tried, the one that learned fastest."""


class Norm(nn.Module):
    """RMS norm."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self._eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x.float(), x.shape[-1:], self.weight, self._eps).to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention without biases. The caller attends, since training attends over several passes."""

    def __init__(self, shape: DrafterShape) -> None:
        super().__init__()
        self._head_dim = shape.head_dim
        self.q_proj = nn.Linear(shape.hidden_size, shape.heads * shape.head_dim, bias=False)
        self.k_proj = nn.Linear(shape.hidden_size, shape.kv_heads * shape.head_dim, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, shape.kv_heads * shape.head_dim, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head_dim, shape.hidden_size, bias=False)

    def forward(self, x_BTH: Tensor, turn: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        q, k, v = (self._split(project(x_BTH)) for project in (self.q_proj, self.k_proj, self.v_proj))
        y_BNTD = attend(rope.rotate(q, *turn), rope.rotate(k, *turn), v)
        out: Tensor = self.o_proj(y_BNTD.transpose(1, 2).flatten(2))
        return out

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self._head_dim).transpose(1, 2)


class Mlp(nn.Module):
    """SiLU-gated."""

    def __init__(self, shape: DrafterShape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """A decoder layer whose input is not normed."""

    def __init__(self, shape: DrafterShape) -> None:
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = Mlp(shape)
        self.post_attention_layernorm = Norm(shape.hidden_size, shape.norm_eps)

    def forward(self, x_BTH: Tensor, turn: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        x_BTH = x_BTH + self.self_attn(x_BTH, turn, attend)
        out: Tensor = x_BTH + self.mlp(self.post_attention_layernorm(x_BTH))
        return out


class Drafter(nn.Module):
    """
    The draft layer.

    Its start is a function of shape and seed alone: trainers that begin from scratch on several workers begin
    equal, so that what they learn can be added up.
    """

    frequencies: Tensor

    def __init__(self, shape: DrafterShape, *, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(2 * shape.hidden_size, shape.hidden_size, bias=False)
        self.layers = nn.ModuleList([Layer(shape)])
        self.register_buffer("frequencies", rope.frequencies(shape.rope, shape.head_dim), persistent=False)
        self._reset(torch.Generator().manual_seed(seed))

    def _reset(self, generator: torch.Generator) -> None:
        for name, parameter in self.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                nn.init.normal_(parameter, std=INIT_GAIN / math.sqrt(parameter.shape[1]), generator=generator)

    def forward(self, embedded_BTH: Tensor, hidden_BTH: Tensor, turn: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        """Return the states that stand for the next positions' hidden states; `turn` is that of `angles`."""
        x_BTH: Tensor = self.fc(torch.cat((embedded_BTH, hidden_BTH.to(embedded_BTH.dtype)), dim=-1))
        for layer in self.layers:
            x_BTH = layer(x_BTH, turn, attend)
        return x_BTH

    def angles(self, positions_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Return what turns queries and keys at these positions."""
        return rope.angles(self.frequencies, positions_BT)
