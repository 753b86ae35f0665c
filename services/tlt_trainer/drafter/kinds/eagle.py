"""
The EAGLE draft layer (arXiv 2401.15077), computed like SGLang's LlamaForCausalLMEagle.

Llama decoder layers, usually one, on fc([embedding of the next token ; last hidden state]); the first one has no input
norm. Their output approximates the next hidden state and goes to the policy's own head without a final norm. Parameter
names are those of SGLang's checkpoint. Embedding and head belong to the policy and are not part of this module.

Shapes: P states of a pack, S scored entries, H hidden size, V vocabulary, N heads, K key-value heads, D head size.
"""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from tlt_common.drafter.format import DrafterFormat
from tlt_trainer.drafter import rope
from tlt_trainer.drafter.kinds.draft_model import AnyDrafter, Attend, DraftModel, Targets
from tlt_trainer.drafter.precision import widened

PASSES = 3
"""Measured on the demo's model at 160 k tokens, chain of 5: 4.0 tokens per round with 3 passes, 2.7 with 1."""
REGRESSION_WEIGHT = 3.0
"""Expected tokens per round of a chain of 7 on the demo's model, after 60, 80, 100 and 120 k tokens: 4.9, 5.4, 5.7 and
5.9 with 3 and with 10; 4.8, 5.2, 5.6 and 5.7 with 1; 4.4, 4.6, 4.9 and 5.2 with EAGLE's 0.1; 4.1, 4.3, 4.4 and 4.6
without. The distributions alone say little about a state; later passes depend on all of it."""
INIT_GAIN = 0.5
"""Gain of fc and the input projections. The two output projections start at zero, so that the layer starts as fc alone:
of the initializations tried, this one learned fastest."""


class Norm(nn.Module):
    """RMS norm."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self._eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x.to(self.weight.dtype), x.shape[-1:], self.weight, self._eps).to(x.dtype)


class DraftAttention(nn.Module):
    """
    Grouped-query attention without biases. The caller passes the attention function, which spans several passes.

    Args:
        form: Sizes of the drafter.
        inputs: Size of its input.
    """

    def __init__(self, form: DrafterFormat, inputs: int) -> None:
        super().__init__()
        self._head_dim = form.head_dim
        self.q_proj = nn.Linear(inputs, form.heads * form.head_dim, bias=False)
        self.k_proj = nn.Linear(inputs, form.kv_heads * form.head_dim, bias=False)
        self.v_proj = nn.Linear(inputs, form.kv_heads * form.head_dim, bias=False)
        self.o_proj = nn.Linear(form.heads * form.head_dim, form.hidden_size, bias=False)

    def forward(self, x_PH: Tensor, turn: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        q, k, v = (self._split(project(x_PH)) for project in (self.q_proj, self.k_proj, self.v_proj))
        y_NPD = attend(rope.rotate(q, *turn), rope.rotate(k, *turn), v)
        out: Tensor = self.o_proj(y_NPD.transpose(0, 1).flatten(1))
        return out

    def _split(self, x: Tensor) -> Tensor:
        return x.view(len(x), -1, self._head_dim).transpose(0, 1)


class Mlp(nn.Module):
    """SiLU-gated MLP."""

    def __init__(self, form: DrafterFormat) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(form.hidden_size, form.intermediate_size, bias=False)
        self.up_proj = nn.Linear(form.hidden_size, form.intermediate_size, bias=False)
        self.down_proj = nn.Linear(form.intermediate_size, form.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """A decoder layer without input norm."""

    def __init__(self, form: DrafterFormat) -> None:
        super().__init__()
        self.self_attn = DraftAttention(form, form.hidden_size)
        self.mlp = Mlp(form)
        self.post_attention_layernorm = Norm(form.hidden_size, form.norm_eps)

    def forward(self, x_PH: Tensor, turn: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        x_PH = x_PH + self.self_attn(x_PH, turn, attend)
        out: Tensor = x_PH + self.mlp(self.post_attention_layernorm(x_PH))
        return out


class DeepLayer(Layer):
    """A decoder layer after the first one, with an input norm."""

    def __init__(self, form: DrafterFormat) -> None:
        super().__init__(form)
        self.input_layernorm = Norm(form.hidden_size, form.norm_eps)

    def forward(self, x_PH: Tensor, turn: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        x_PH = x_PH + self.self_attn(self.input_layernorm(x_PH), turn, attend)
        out: Tensor = x_PH + self.mlp(self.post_attention_layernorm(x_PH))
        return out


class Drafter(DraftModel):
    """
    The EAGLE draft layers. Captured states are the policy's last ones, draft tokens its whole vocabulary.

    Its initial weights depend on format and seed only: trainers that start from scratch on several workers have equal
    initial weights, so that their results can be merged.
    """

    default_passes: ClassVar[int] = PASSES
    regression_weight: ClassVar[float] = REGRESSION_WEIGHT

    def __init__(self, form: DrafterFormat, *, seed: int = 0) -> None:
        super().__init__(form)
        self.fc = nn.Linear(2 * form.hidden_size, form.hidden_size, bias=False)
        self.layers = nn.ModuleList([Layer(form), *(DeepLayer(form) for _ in range(1, form.layer_count))])
        reset(self, torch.Generator().manual_seed(seed))

    def begin(self, captured_PC: Tensor) -> Tensor:
        return captured_PC

    def forward(self, embedded_PH: Tensor, states_PH: Tensor, turn: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        x_PH: Tensor = self.fc(torch.cat((embedded_PH, states_PH.to(embedded_PH.dtype)), dim=-1))
        for layer in self.layers:
            x_PH = layer(x_PH, turn, attend)
        return x_PH

    def logits(self, states_SH: Tensor, head_VH: Tensor) -> Tensor:
        return functional.linear(states_SH, head_VH)

    def targets(self, captured_SC: Tensor, head_VH: Tensor) -> Targets:
        shares_SV = widened(functional.linear(captured_SC, head_VH)).softmax(-1)
        return Targets(states=captured_SC, shares=shares_SV, best=shares_SV.argmax(-1))


def reset(drafter: AnyDrafter, generator: torch.Generator) -> None:
    """Initialize matrices: the output projections with zeros, the others at random."""
    for name, parameter in drafter.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            nn.init.zeros_(parameter)
        elif parameter.dim() == 2:
            nn.init.normal_(parameter, std=INIT_GAIN / math.sqrt(parameter.shape[1]), generator=generator)
