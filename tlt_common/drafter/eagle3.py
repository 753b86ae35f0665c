"""The EAGLE-3 format: one Llama layer on states of several target layers, with a head of its own and a token map."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.eagle import layer_shapes, require_one_layer
from tlt_common.drafter.format import DrafterFormat, Json, Shapes
from tlt_common.drafter.sizes import DRAFT_VOCABULARY, runnable, sizes_of
from tlt_common.drafter.target_layers import require_layers, standard_layers
from tlt_common.drafter.tensors import BIAS, HEAD, INVERSE_MAP, LAYER
from tlt_common.errors import WeightsError

LEAST_LAYERS: Final = 2
"""SGLang's fc requires so many."""
_LAYER_IDS: Final = "eagle_aux_hidden_state_layer_ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class Eagle3Format(DrafterFormat):
    """Format of an EAGLE-3 drafter."""

    architecture: ClassVar[DrafterArchitecture] = DrafterArchitecture.EAGLE3
    model_classes: ClassVar[tuple[str, ...]] = ("LlamaForCausalLMEagle3",)

    @classmethod
    def standard(
        cls, target: Json, *, draft_vocabulary: int | None = None, layers: Sequence[int] | None = None
    ) -> Self:
        read = standard_layers(target) if layers is None else tuple(layers)
        require_layers(read, target, least=LEAST_LAYERS)
        vocabulary = min(int(target["vocab_size"]), draft_vocabulary or DRAFT_VOCABULARY)
        return runnable(cls(**sizes_of(target, target), draft_vocab_size=vocabulary, layers=read))

    @classmethod
    def read(cls, drafter: Json, target: Json) -> Self:
        require_one_layer(drafter, target)
        vocabulary = int(drafter.get("draft_vocab_size") or drafter["vocab_size"])
        if not 1 <= vocabulary <= int(target["vocab_size"]):
            raise WeightsError(f"the drafter's draft_vocab_size is {vocabulary}; accepted: 1 to {target['vocab_size']}")
        return cls(
            **sizes_of(drafter, target),
            draft_vocab_size=vocabulary,
            layers=_layers_of(drafter, drafter.get("eagle_config") or {}, target),
        )

    def tensor_shapes(self) -> Shapes:
        norms = (f"{LAYER}input_layernorm.weight", f"{LAYER}hidden_norm.weight", "norm.weight")
        return {
            "fc.weight": (self.hidden_size, len(self.layers) * self.hidden_size),
            **layer_shapes(self, 2 * self.hidden_size),
            **dict.fromkeys(norms, (self.hidden_size,)),
            HEAD: (self.draft_vocab_size, self.hidden_size),
        }

    def bias_shapes(self) -> Shapes:
        return dict.fromkeys((BIAS, f"{LAYER}self_attn.o_proj.bias"), (self.hidden_size,))

    @property
    def written_biases(self) -> tuple[str, ...]:
        return (BIAS,)

    def shared_shapes(self) -> Shapes:
        return {**DrafterFormat.shared_shapes(self), INVERSE_MAP: (self.vocab_size,)}

    @property
    def served_as(self) -> str:
        return "TltEagle3"

    @property
    def has_map(self) -> bool:
        return True

    @property
    def trains_head(self) -> bool:
        return True

    def own_config(self) -> dict[str, Any]:
        return {
            "bias": True,  # of fc and attention; zeros if the drafter has none
            "draft_vocab_size": self.draft_vocab_size,
            "eagle_config": {"use_aux_hidden_state": True, _LAYER_IDS: list(self.layers)},
        }


def _layers_of(drafter: Json, eagle_config: Json, target: Json) -> tuple[int, ...]:
    named = eagle_config.get(_LAYER_IDS, drafter.get(_LAYER_IDS))
    layers = standard_layers(target) if named is None else tuple(int(layer) for layer in named)
    if not eagle_config.get("use_aux_hidden_state", True):
        layers = ()
    require_layers(layers, target, least=LEAST_LAYERS)
    if (count := drafter.get("num_aux_hidden_states")) not in {None, len(layers)}:
        raise WeightsError(
            f"the drafter's num_aux_hidden_states is {count}; accepted: {len(layers)}, as it names layers"
        )
    return layers
