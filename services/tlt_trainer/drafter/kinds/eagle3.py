"""
The EAGLE-3 draft layer (arXiv 2503.01840), computed like SGLang's LlamaForCausalLMEagle3.

Its first pass reads fc([states of some layers of the policy]), later ones its own last states. One Llama decoder layer
attends to [embedding of the next token ; state], each behind a norm of its own, and adds to the state. Logits are those
of an own head over the draft tokens, behind an own norm; the state that is passed on is not normed. Further layers read
the state alone. EAGLE 3.1 (arXiv 2605.09992) may norm what fc reads, and what is passed on.

A captured state is that of each layer in `form.layers`, then the policy's last one. The drafter does not read that:
the policy's own head makes the targets from it.

Shapes: P states of a pack, S scored entries, C = (layers + 1) * H elements of a captured state, H hidden size,
V vocabulary, D draft tokens.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from tlt_common.drafter.eagle3 import Eagle3Format
from tlt_common.drafter.format import DrafterFormat
from tlt_trainer.drafter.kinds.draft_model import Attend, DraftModel, Targets
from tlt_trainer.drafter.kinds.eagle import DraftAttention, Mlp, Norm, reset
from tlt_trainer.drafter.precision import widened
from tlt_trainer.drafter.vocabulary import map_of, rows_for, tokens_of

PASSES = 7
"""As in the TLT paper, which takes it from EAGLE-3's code. On the demo's model, the shares of fourth and fifth drafts
that are right are 0.44 and 0.26 after training with 3 passes, and 0.83 and 0.82 with 7."""


class Eagle3Layer(nn.Module):
    """A decoder layer that reads embedding and state."""

    def __init__(self, form: DrafterFormat) -> None:
        super().__init__()
        self.self_attn = DraftAttention(form, 2 * form.hidden_size)
        self.mlp = Mlp(form)
        self.input_layernorm = Norm(form.hidden_size, form.norm_eps)
        self.hidden_norm = Norm(form.hidden_size, form.norm_eps)
        self.post_attention_layernorm = Norm(form.hidden_size, form.norm_eps)

    def forward(self, embedded_PH: Tensor, x_PH: Tensor, turn: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        both_P2H = torch.cat((self.input_layernorm(embedded_PH), self.hidden_norm(x_PH)), dim=-1)
        x_PH = x_PH + self.self_attn(both_P2H, turn, attend)
        out: Tensor = x_PH + self.mlp(self.post_attention_layernorm(x_PH))
        return out


class Eagle3DeepLayer(nn.Module):
    """A decoder layer after the first one, which reads the state only."""

    def __init__(self, form: DrafterFormat) -> None:
        super().__init__()
        self.self_attn = DraftAttention(form, form.hidden_size)
        self.mlp = Mlp(form)
        self.hidden_norm = Norm(form.hidden_size, form.norm_eps)
        self.post_attention_layernorm = Norm(form.hidden_size, form.norm_eps)

    def forward(
        self,
        embedded_PH: Tensor,  # noqa: ARG002 - the first layer reads it
        x_PH: Tensor,
        turn: tuple[Tensor, Tensor],
        attend: Attend,
    ) -> Tensor:
        x_PH = x_PH + self.self_attn(self.hidden_norm(x_PH), turn, attend)
        out: Tensor = x_PH + self.mlp(self.post_attention_layernorm(x_PH))
        return out


class Eagle3Drafter(DraftModel):
    """
    The EAGLE-3 draft layers. They have no draft tokens until these are chosen.

    Its other initial weights depend on format and seed only, so that those of several trainers can be merged.
    """

    default_passes: ClassVar[int] = PASSES
    regression_weight: ClassVar[float] = 0.0

    d2t: Tensor
    """(D,), the policy's token of each draft token minus the draft token, int64. Encodes token -1 if there is none."""

    def __init__(self, form: DrafterFormat, *, seed: int = 0) -> None:
        super().__init__(form)
        if not isinstance(form, Eagle3Format):
            raise TypeError(f"{type(form).__name__} is not the format of an EAGLE-3 drafter")
        read, hidden = len(form.layers), form.hidden_size
        self._norms_output = form.norms_output
        self.input_norm = Norm(read * hidden, form.norm_eps) if form.norms_all else None
        self.fc_norm = nn.ModuleList(Norm(hidden, form.norm_eps) for _ in range(read)) if form.norms_each else None
        self.fc = nn.Linear(len(form.layers) * form.hidden_size, form.hidden_size, bias=False)
        self.layers = nn.ModuleList([Eagle3Layer(form), *(Eagle3DeepLayer(form) for _ in range(1, form.depth))])
        self.norm = Norm(form.hidden_size, form.norm_eps)
        self.lm_head = nn.Linear(form.hidden_size, form.draft_vocab_size, bias=False)
        self.register_buffer("d2t", map_of(torch.full((form.draft_vocab_size,), -1)))
        reset(self, torch.Generator().manual_seed(seed))

    @property
    def tokens(self) -> Tensor:
        """(D,), the policy's token of each draft token; -1 if none has been chosen."""
        return tokens_of(self.d2t)

    @torch.no_grad()
    def head_for(self, tokens_D: Tensor, head_VH: Tensor) -> Tensor:
        """Return the head for other draft tokens. Rows of new tokens are copied from `head_VH`."""
        head_DH = self.lm_head.weight
        return rows_for(tokens_D, head_DH, self.tokens, head_VH[tokens_D].to(head_DH))

    @torch.no_grad()
    def choose(self, tokens_D: Tensor, head_DH: Tensor) -> None:
        """Set the draft tokens, ascending, and their head."""
        self.lm_head.weight.copy_(head_DH)
        self.d2t.copy_(map_of(tokens_D))

    def begin(self, captured_PC: Tensor) -> Tensor:
        read_PL = captured_PC[:, : -self.form.hidden_size].to(self.fc.weight.dtype)
        if self.input_norm is not None:
            read_PL = self.input_norm(read_PL)
        if self.fc_norm is not None:
            parts = read_PL.chunk(len(self.fc_norm), dim=-1)
            read_PL = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], dim=-1)
        out: Tensor = self.fc(read_PL)
        return out

    def forward(self, embedded_PH: Tensor, states_PH: Tensor, turn: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        x_PH = states_PH
        for layer in self.layers:
            x_PH = layer(embedded_PH, x_PH, turn, attend)
        return self.norm(x_PH) if self._norms_output else x_PH

    def logits(self, states_SH: Tensor, head_VH: Tensor) -> Tensor:  # noqa: ARG002 - it has a head of its own
        out: Tensor = self.lm_head(states_SH if self._norms_output else self.norm(states_SH))
        return out

    def targets(self, captured_SC: Tensor, head_VH: Tensor) -> Targets:
        last_SH = captured_SC[:, -self.form.hidden_size :]
        shares_SV = widened(functional.linear(last_SH, head_VH)).softmax(-1)
        tokens_D = self.tokens
        drafts_V = torch.full((len(head_VH),), -1, device=tokens_D.device)
        drafts_V[tokens_D] = torch.arange(len(tokens_D), device=tokens_D.device)
        return Targets(states=last_SH, shares=shares_SV[:, tokens_D], best=drafts_V[shares_SV.argmax(-1)])
