"""
The prediction head in a checkpoint (MTP), computed like SGLang's `Glm4MoeForCausalLMNextN` and `MiMoMTP`.

fc([norm(embedding of the next token) ; norm(last state)], in the family's order) goes through a decoder layer like the
policy's own and a final norm. Like the policy's last state, its output goes to the policy's head and is the input of
the next pass. Routed experts stay frozen: gradients flow through them to the state but do not change their weights.

Shapes: P states of a pack, S scored entries, T states of one expert, H hidden size, V vocabulary, N heads, D head size,
E experts, I their intermediate size.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.mtp import HeadRouting, MtpFormat
from tlt_trainer.drafter import rope
from tlt_trainer.drafter.kinds.draft_model import AnyDrafter, Attend, DraftModel, Targets
from tlt_trainer.drafter.kinds.eagle import Norm, reset
from tlt_trainer.drafter.precision import widened

PASSES = 7
"""As for EAGLE-3, whose states are its own, too: a head is used several times in a row, and was trained for one."""
RATE = 0.1
"""Of the rates of drafters that begin from nothing: a head that comes with a checkpoint is good already."""


class MtpAttention(nn.Module):
    """Grouped-query attention as in the policy's layer: with biases, head norms and partial rotation."""

    def __init__(self, form: MtpFormat) -> None:
        super().__init__()
        self._head_dim = form.head_dim
        rows = {"q": form.heads * form.head_dim, "k": form.kv_heads * form.head_dim, "v": form.kv_heads * form.head_dim}
        self.q_proj, self.k_proj, self.v_proj = (
            nn.Linear(form.hidden_size, rows[name], bias=form.is_biased) for name in "qkv"
        )
        self.o_proj = nn.Linear(rows["q"], form.hidden_size, bias=False)
        if form.norms_heads:
            self.q_norm, self.k_norm = (Norm(form.head_dim, form.norm_eps) for _ in range(2))
        self._norms_heads = form.norms_heads

    def forward(self, x_PH: Tensor, turn: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        q, k, v = (
            project(x_PH).view(len(x_PH), -1, self._head_dim) for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self._norms_heads:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (x_PND.transpose(0, 1) for x_PND in (q, k, v))
        y_NPD = attend(rope.rotate(q, *turn), rope.rotate(k, *turn), v)
        out: Tensor = self.o_proj(y_NPD.transpose(0, 1).flatten(1))
        return out


class GatedMlp(nn.Module):
    """SiLU-gated MLP."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenExperts:
    """The routed experts of a head and their router, which are not trained."""

    router: Tensor
    """(E, H), float32."""
    correction: Tensor
    """(E,), added for the choice only, float32."""
    gate_up: Tensor
    """(E, 2 I, H)."""
    down: Tensor
    """(E, H, I)."""

    def to(self, device: torch.device, dtype: torch.dtype) -> "FrozenExperts":
        """Return the experts on a device, with matrices of this type."""
        return FrozenExperts(
            router=self.router.to(device),
            correction=self.correction.to(device),
            gate_up=self.gate_up.to(device, dtype),
            down=self.down.to(device, dtype),
        )

    def outputs(self, x_PH: Tensor, routing: HeadRouting) -> Tensor:
        """Return the weighted outputs of the chosen experts, (P, H)."""
        chosen_PK, weights_PK = self._chosen(x_PH, routing)
        out_PH = torch.zeros_like(x_PH)
        for expert in torch.unique(chosen_PK).tolist():
            rows_T, places_T = (chosen_PK == expert).nonzero(as_tuple=True)
            gate_TI, up_TI = functional.linear(x_PH[rows_T], self.gate_up[expert]).chunk(2, dim=-1)
            y_TH = functional.linear(functional.silu(gate_TI) * up_TI, self.down[expert])
            y_TH = y_TH * weights_PK[rows_T, places_T, None].to(y_TH.dtype)
            out_PH = out_PH.index_add(0, rows_T, y_TH.to(out_PH.dtype))
        return out_PH

    def _chosen(self, x_PH: Tensor, routing: HeadRouting) -> tuple[Tensor, Tensor]:
        """Return the experts of each state and their weights, both (P, chosen)."""
        with torch.autocast(x_PH.device.type, enabled=False):
            scores_PE = functional.linear(x_PH.float(), self.router).sigmoid()
        choice_PE = scores_PE.detach() + self.correction
        if routing.groups > 1:
            groups_PGE = choice_PE.view(len(x_PH), routing.groups, -1)
            best_PG = groups_PGE.topk(2, dim=-1).values.sum(-1).topk(routing.chosen_groups, dim=-1).indices
            others_PG = torch.ones_like(groups_PGE[..., 0], dtype=torch.bool).scatter(1, best_PG, value=False)
            choice_PE = groups_PGE.masked_fill(others_PG[..., None], float("-inf")).flatten(1)
        chosen_PK = choice_PE.topk(routing.chosen, dim=-1).indices
        weights_PK = scores_PE.gather(1, chosen_PK)
        if routing.is_normed:
            weights_PK = weights_PK / weights_PK.sum(-1, keepdim=True)
        return chosen_PK, weights_PK


class SparseMlp(nn.Module):
    """Frozen routed experts, and shared experts that process every state."""

    def __init__(self, form: MtpFormat, routing: HeadRouting) -> None:
        super().__init__()
        self._routing = routing
        self.experts: FrozenExperts | None = None
        if routing.shared:
            self.shared_experts = GatedMlp(form.hidden_size, routing.shared * routing.inner)

    def forward(self, x_PH: Tensor) -> Tensor:
        out_PH = torch.zeros_like(x_PH)
        if self.experts is not None:
            out_PH = self.experts.outputs(x_PH, self._routing) * self._routing.scale
        return out_PH + self.shared_experts(x_PH) if self._routing.shared else out_PH


class MtpLayer(nn.Module):
    """A decoder layer like the policy's own."""

    def __init__(self, form: MtpFormat) -> None:
        super().__init__()
        self.input_layernorm = Norm(form.hidden_size, form.norm_eps)
        self.self_attn = MtpAttention(form)
        self.post_attention_layernorm = Norm(form.hidden_size, form.norm_eps)
        self.mlp = (
            GatedMlp(form.hidden_size, form.intermediate_size)
            if form.routing is None
            else SparseMlp(form, form.routing)
        )

    def forward(self, x_PH: Tensor, turn: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        x_PH = x_PH + self.self_attn(self.input_layernorm(x_PH), turn, attend)
        out: Tensor = x_PH + self.mlp(self.post_attention_layernorm(x_PH))
        return out


class MtpDrafter(DraftModel):
    """
    A checkpoint's prediction head.

    Captured states are the policy's last ones, and draft tokens its whole vocabulary.
    """

    default_passes: ClassVar[int] = PASSES
    regression_weight: ClassVar[float] = 0.0
    rate_factor: ClassVar[float] = RATE

    def __init__(self, form: DrafterFormat, *, seed: int = 0) -> None:
        super().__init__(form)
        if not isinstance(form, MtpFormat):
            raise TypeError(f"{type(form).__name__} is not the format of a head")
        self._head = form.head
        self.enorm, self.hnorm, self.norm = (Norm(form.hidden_size, form.norm_eps) for _ in range(3))
        self.fc = nn.Linear(2 * form.hidden_size, form.hidden_size, bias=False)
        self.layers = nn.ModuleList([MtpLayer(form)])
        self._sparse = tuple(module for module in self.modules() if isinstance(module, SparseMlp))
        reset(self, torch.Generator().manual_seed(seed))

    @property
    def experts(self) -> FrozenExperts | None:
        """Its routed experts once they have been read; None also if it has none."""
        return self._sparse[0].experts if self._sparse else None

    @experts.setter
    def experts(self, experts: FrozenExperts | None) -> None:
        for mlp in self._sparse:
            mlp.experts = experts

    def borrow(self, other: AnyDrafter) -> None:
        super().borrow(other)
        if isinstance(other, MtpDrafter):
            self.experts = other.experts

    def embedded(self, embedded_PH: Tensor, positions_P: Tensor) -> Tensor:
        return embedded_PH * (positions_P != 0)[:, None] if self._head.skips_first else embedded_PH

    def begin(self, captured_PC: Tensor) -> Tensor:
        return captured_PC

    def forward(self, embedded_PH: Tensor, states_PH: Tensor, turn: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        both = [self.enorm(embedded_PH), self.hnorm(states_PH.to(embedded_PH.dtype))]
        x_PH: Tensor = self.fc(torch.cat(both[::-1] if self._head.state_first else both, dim=-1))
        for layer in self.layers:
            x_PH = layer(x_PH, turn, attend)
        out: Tensor = self.norm(x_PH)
        return out

    def logits(self, states_SH: Tensor, head_VH: Tensor) -> Tensor:
        return functional.linear(states_SH, head_VH)

    def targets(self, captured_SC: Tensor, head_VH: Tensor) -> Targets:
        shares_SV = widened(functional.linear(captured_SC, head_VH)).softmax(-1)
        return Targets(states=captured_SC, shares=shares_SV, best=shares_SV.argmax(-1))
