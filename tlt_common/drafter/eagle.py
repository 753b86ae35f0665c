"""The EAGLE format: Llama layers, usually one, on the target's last state, with the target's head."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat, Json, Shapes
from tlt_common.drafter.published import WAY_OUT
from tlt_common.drafter.sizes import require_same_target, runnable, sizes_of
from tlt_common.drafter.tensors import BIAS
from tlt_common.errors import WeightsError

_UNSUPPORTED = ("mlp_bias", "norm_before_residual")
"""Variants of the layer that SGLang does not compute; config.json contains them only if they are used."""
NORMS = ("norm_before_fc", "fc_norm", "use_aux_norm", "norm_output")
"""Norms of what is read and passed on, which EAGLE-3 drafters may have (EAGLE 3.1, arXiv 2605.09992)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EagleFormat(DrafterFormat):
    """Format of an EAGLE drafter."""

    architecture: ClassVar[DrafterArchitecture] = DrafterArchitecture.EAGLE
    model_classes: ClassVar[tuple[str, ...]] = ("LlamaForCausalLMEagle",)

    depth: int = 1
    """Number of layers."""

    @classmethod
    def standard(
        cls,
        target: Json,
        *,
        draft_vocabulary: int | None = None,  # noqa: ARG003 - it drafts all tokens
        layers: Sequence[int] | None = None,  # noqa: ARG003 - it reads the last state
    ) -> Self:
        return runnable(cls(**sizes_of(target, target), draft_vocab_size=int(target["vocab_size"])))

    @classmethod
    def read(cls, drafter: Json, target: Json) -> Self:
        require_supported(drafter, target, without=NORMS)
        return cls(
            **sizes_of(drafter, target),
            draft_vocab_size=int(drafter["vocab_size"]),
            depth=depth_of(drafter, target),
        )

    @property
    def served_as(self) -> str:
        return "TltEagle"  # tlt_worker.scheduler.models.eagle

    @property
    def layer_count(self) -> int:
        return self.depth

    def tensor_shapes(self) -> Shapes:
        found: Shapes = {"fc.weight": (self.hidden_size, 2 * self.hidden_size)}
        for number in range(self.depth):
            found |= layer_shapes(self, self.hidden_size, number)
            if number:
                found[f"layers.{number}.input_layernorm.weight"] = (self.hidden_size,)
        return found

    def bias_shapes(self) -> Shapes:
        rows = {"q": self.heads * self.head_dim, **dict.fromkeys("kv", self.kv_heads * self.head_dim)}
        rows |= {"o": self.hidden_size}
        found: Shapes = {BIAS: (self.hidden_size,)}
        for number in range(self.depth):
            found |= {f"layers.{number}.self_attn.{name}_proj.bias": (count,) for name, count in rows.items()}
        return found

    @property
    def written_biases(self) -> tuple[str, ...]:
        return (BIAS,)

    def own_config(self) -> dict[str, Any]:
        return {"bias": True}  # bias of fc and attention: zeros if the drafter has none


def layer_shapes(form: DrafterFormat, read: int, number: int = 0) -> Shapes:
    """Return the tensor shapes of a Llama layer without input norm whose attention reads this many elements."""
    prefix = f"layers.{number}."
    hidden, inner, size = form.hidden_size, form.intermediate_size, form.head_dim
    return {
        f"{prefix}self_attn.q_proj.weight": (form.heads * size, read),
        f"{prefix}self_attn.k_proj.weight": (form.kv_heads * size, read),
        f"{prefix}self_attn.v_proj.weight": (form.kv_heads * size, read),
        f"{prefix}self_attn.o_proj.weight": (hidden, form.heads * size),
        f"{prefix}mlp.gate_proj.weight": (inner, hidden),
        f"{prefix}mlp.up_proj.weight": (inner, hidden),
        f"{prefix}mlp.down_proj.weight": (hidden, inner),
        f"{prefix}post_attention_layernorm.weight": (hidden,),
    }


def depth_of(drafter: Json, target: Json) -> int:
    """Return a drafter's number of layers. Some authors copy the target's number although the drafter has one."""
    count = int(drafter.get("num_hidden_layers", 1))
    if count < 1:
        raise WeightsError(f"the drafter's num_hidden_layers is {count}; accepted: 1 and above")
    return 1 if count == int(target.get("num_hidden_layers", 1)) else count


def require_supported(drafter: Json, target: Json, *, without: Sequence[str] = ()) -> None:
    """
    Check a drafter of EAGLE's kinds. `without` names variants that its kind does not support.

    Raises:
        WeightsError: A config.json describes a drafter for another target, or an unsupported variant.
    """
    require_same_target(drafter, target)
    eagle_config = drafter.get("eagle_config") or {}
    for name in (*_UNSUPPORTED, *without):
        if drafter.get(name) or eagle_config.get(name):
            raise WeightsError(f"the drafter's {name} is set; accepted: a drafter without it. {WAY_OUT}")
    if (width := drafter.get("target_hidden_size")) not in {None, drafter["hidden_size"]}:
        raise WeightsError(f"the drafter's target_hidden_size is {width}; accepted: its hidden_size. {WAY_OUT}")
