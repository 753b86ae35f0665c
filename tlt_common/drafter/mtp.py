"""
The format of prediction heads in checkpoints (MTP): a layer like the policy's own, under the checkpoint's names.

Norms, projection, attention, and the dense MLP or shared expert are trained and published. Routed experts and their
router are kept from the checkpoint: they make up nearly all of a sparse head (2.2 of 2.4 billion parameters in
GLM-4.5-Air), would take 16 bytes per parameter to train, and the few tokens of a rollout's tail rarely reach each of
them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat, Json, Shapes
from tlt_common.drafter.heads import COUNT, HEADS, Head, checkpoint_name, head_of, own_name
from tlt_common.drafter.rope import rope_fields, rope_parameters
from tlt_common.drafter.sizes import require_same_target, sizes_of
from tlt_common.drafter.tensors import LAYER
from tlt_common.errors import WeightsError

_PART = "partial_rotary_factor"
_PART_DEFAULT = 0.5
"""Of GLM-4 MoE, in transformers and SGLang."""
_ROUTING = ("n_group", "topk_group", "norm_topk_prob", "routed_scaling_factor")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRouting:
    """Routed experts of a head and their choice: by sigmoid scores, within groups."""

    count: int
    inner: int
    chosen: int
    shared: int
    """Number of shared experts, which process every token."""
    groups: int = 1
    chosen_groups: int = 1
    is_normed: bool = True
    """Whether the weights of the chosen experts are normalized to 1."""
    scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MtpFormat(DrafterFormat):
    """Format of the head of a family's checkpoints."""

    architecture: ClassVar[DrafterArchitecture] = DrafterArchitecture.MTP
    model_classes: ClassVar[tuple[str, ...]] = tuple(row.model_class for row in HEADS.values())

    family: str
    """`architectures` of the policies with such heads."""
    target_layers: int
    """Number of the policy's layers, after which the head's layer is numbered."""
    is_biased: bool = False
    """Whether queries, keys and values have biases."""
    norms_heads: bool = False
    """Whether queries and keys are normed."""
    turned: float = 1.0
    """Rotated share of each attention head."""
    routing: HeadRouting | None = None
    """Routing of its experts; None for a dense MLP."""

    @classmethod
    def standard(
        cls,
        target: Json,
        *,
        draft_vocabulary: int | None = None,  # noqa: ARG003 - it drafts all tokens
        layers: Sequence[int] | None = None,  # noqa: ARG003 - it reads the last state
    ) -> Self:
        head = head_of(target)
        if head is None:
            accepted = ", ".join(HEADS)
            raise WeightsError(f"{target.get('architectures')} bring no head that is served; accepted: {accepted}")
        if (count := int(target.get(COUNT) or 0)) != 1:
            raise WeightsError(f"the policy's {COUNT} is {count}; accepted: 1, a checkpoint with one head")
        return cls._of(head, target, target)

    @classmethod
    def read(cls, drafter: Json, target: Json) -> Self:
        name = _class_of(drafter)
        head = next(row for row in HEADS.values() if row.model_class == name)
        if head_of(target) is not head:
            raise WeightsError(f"the drafter is a head of {head.architecture}; its target is {target['architectures']}")
        rope = {key: value for key, value in rope_parameters(drafter).items() if key != _PART}
        require_same_target({**drafter, "rope_parameters": rope}, target)
        if (layers := int(drafter["num_hidden_layers"])) != int(target["num_hidden_layers"]):
            accepted = target["num_hidden_layers"]
            raise WeightsError(f"the drafter's num_hidden_layers is {layers}; accepted: {accepted}, as in its target")
        return cls._of(head, drafter, target)

    @classmethod
    def _of(cls, head: Head, config: Json, target: Json) -> Self:
        sizes = sizes_of(config, target)
        rope, turned = dict(sizes["rope"]), 1.0
        part = rope.pop(_PART, None)
        if head.turns_part:
            turned = float(config.get(_PART, _PART_DEFAULT) if part is None else part)
        return cls(
            **{**sizes, "rope": rope},
            draft_vocab_size=int(config["vocab_size"]),
            family=head.architecture,
            target_layers=int(config["num_hidden_layers"]),
            is_biased=head.always_biased or bool(config.get("attention_bias")),
            norms_heads=bool(head.norms_heads and config.get(head.norms_heads)),
            turned=turned,
            routing=_routing_of(head, config),
        )

    @property
    def head(self) -> Head:
        """The table row of its family."""
        return HEADS[self.family]

    @property
    def model_class(self) -> str:
        return self.head.model_class

    @property
    def is_targets_own(self) -> bool:
        return True

    @property
    def inner_size(self) -> int:
        routing = self.routing
        return self.intermediate_size if routing is None else (routing.chosen + routing.shared) * routing.inner

    @property
    def turned_size(self) -> int:
        return int(self.head_dim * self.turned)

    def canonical_name(self, name: str) -> str:
        return own_name(self.head, self.target_layers, name)

    def published_name(self, name: str) -> str:
        return checkpoint_name(self.head, self.target_layers, name)

    def tensor_shapes(self) -> Shapes:
        hidden, routing = self.hidden_size, self.routing
        found: Shapes = {"fc.weight": (hidden, 2 * hidden), **self._attention()}
        inner, prefix = (self.intermediate_size, "mlp") if routing is None else (routing.inner, "mlp.shared_experts")
        if routing is None or routing.shared:
            found |= _mlp(prefix, inner * (1 if routing is None else routing.shared), hidden)
        norms = ("enorm", "hnorm", "norm", f"{LAYER}input_layernorm", f"{LAYER}post_attention_layernorm")
        return found | {f"{name}.weight": (hidden,) for name in norms}

    def frozen_shapes(self) -> Shapes:
        routing, experts = self.routing, self.head.experts
        if routing is None or experts is None:
            return {}
        found: Shapes = {
            f"{LAYER}{experts.router}.weight": (routing.count, self.hidden_size),
            f"{LAYER}{experts.correction}": (routing.count,),
        }
        for number in range(routing.count):
            found |= _mlp(f"mlp.experts.{number}", routing.inner, self.hidden_size)
        return found

    @property
    def chosen_parameters(self) -> int:
        routing = self.routing
        return 0 if routing is None else 3 * routing.chosen * routing.inner * self.hidden_size

    def shared_shapes(self) -> Shapes:
        copies = dict.fromkeys((LAYER + name for name in self.head.copies), (self.vocab_size, self.hidden_size))
        return {**DrafterFormat.shared_shapes(self), **copies}

    def own_config(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "model_type": self.head.model_type,
            "num_hidden_layers": self.target_layers,
            COUNT: 1,
            "attention_bias": self.is_biased,
        }
        if self.head.norms_heads:
            found[self.head.norms_heads] = self.norms_heads
        if self.head.turns_part:
            found |= {_PART: self.turned, **rope_fields({**self.rope, _PART: self.turned})}
        return found | self._routed_config()

    def _routed_config(self) -> dict[str, Any]:
        routing, experts = self.routing, self.head.experts
        if routing is None or experts is None:
            return {}
        ways = (routing.groups, routing.chosen_groups, routing.is_normed, routing.scale)
        return {
            experts.count: routing.count,
            experts.inner: routing.inner,
            experts.shared: routing.shared,
            "num_experts_per_tok": routing.chosen,
            **dict(zip(_ROUTING, ways, strict=True)),
        }

    def _attention(self) -> Shapes:
        size, hidden = self.head_dim, self.hidden_size
        rows = {"q": self.heads * size, "k": self.kv_heads * size, "v": self.kv_heads * size}
        found: Shapes = {f"{LAYER}self_attn.{name}_proj.weight": (count, hidden) for name, count in rows.items()}
        found[f"{LAYER}self_attn.o_proj.weight"] = (hidden, rows["q"])
        if self.is_biased:
            found |= {f"{LAYER}self_attn.{name}_proj.bias": (count,) for name, count in rows.items()}
        if self.norms_heads:
            found |= {f"{LAYER}self_attn.{name}_norm.weight": (size,) for name in "qk"}
        return found


def _mlp(prefix: str, inner: int, hidden: int) -> Shapes:
    return {
        f"{LAYER}{prefix}.gate_proj.weight": (inner, hidden),
        f"{LAYER}{prefix}.up_proj.weight": (inner, hidden),
        f"{LAYER}{prefix}.down_proj.weight": (hidden, inner),
    }


def _routing_of(head: Head, config: Json) -> HeadRouting | None:
    if head.experts is None:
        return None
    groups, chosen_groups, is_normed, scale = (
        config.get(name, default) for name, default in zip(_ROUTING, (1, 1, True, 1.0), strict=True)
    )
    return HeadRouting(
        count=int(config[head.experts.count]),
        inner=int(config[head.experts.inner]),
        chosen=int(config["num_experts_per_tok"]),
        shared=int(config.get(head.experts.shared) or 0),
        groups=int(groups or 1),
        chosen_groups=int(chosen_groups or 1),
        is_normed=bool(is_normed),
        scale=float(scale),
    )


def _class_of(drafter: Json) -> str:
    names = drafter.get("architectures") or [None]
    return str(names[0] if isinstance(names, list) else names)
