"""
The EAGLE-3 format: Llama layers, usually one, on states of several target layers, with its own head and token map.

EAGLE 3.1 (arXiv 2605.09992) adds norms of the input states, jointly or per layer, and of the output state.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.eagle import depth_of, layer_shapes, require_supported
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

    depth: int = 1
    """Number of layers. The first one attends to embedding and state, later ones to the state."""
    norms_all: bool = False
    """Whether the input states are normed jointly, before fc."""
    norms_each: bool = False
    """Whether each input state is normed separately."""
    norms_output: bool = False
    """Whether the output state is normed, as its head reads it."""

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
        require_supported(drafter, target)
        eagle_config = drafter.get("eagle_config") or {}
        vocabulary = int(drafter.get("draft_vocab_size") or drafter["vocab_size"])
        if not 1 <= vocabulary <= int(target["vocab_size"]):
            raise WeightsError(f"the drafter's draft_vocab_size is {vocabulary}; accepted: 1 to {target['vocab_size']}")
        return cls(
            **sizes_of(drafter, target),
            draft_vocab_size=vocabulary,
            layers=_layers_of(drafter, eagle_config, target),
            depth=depth_of(drafter, target),
            norms_all=bool(eagle_config.get("norm_before_fc", drafter.get("norm_before_fc"))),
            norms_each=bool(drafter.get("fc_norm") or drafter.get("use_aux_norm")),
            norms_output=bool(drafter.get("norm_output")),
        )

    @property
    def served_as(self) -> str:
        return "TltEagle3"  # tlt_worker.scheduler.models.eagle3

    @property
    def layer_count(self) -> int:
        return self.depth

    def tensor_shapes(self) -> Shapes:
        hidden, read = self.hidden_size, len(self.layers)
        found: Shapes = {"fc.weight": (hidden, read * hidden)}
        for number in range(self.depth):
            found |= layer_shapes(self, hidden if number else 2 * hidden, number)
            found[f"layers.{number}.hidden_norm.weight"] = (hidden,)
        norms = [f"{LAYER}input_layernorm.weight", "norm.weight"]
        if self.norms_each:
            norms += [f"fc_norm.{number}.weight" for number in range(read)]
        found |= dict.fromkeys(norms, (hidden,))
        if self.norms_all:
            found["input_norm.weight"] = (read * hidden,)
        return found | {HEAD: (self.draft_vocab_size, hidden)}

    def bias_shapes(self) -> Shapes:
        outputs = (f"layers.{number}.self_attn.o_proj.bias" for number in range(self.depth))
        return dict.fromkeys((BIAS, *outputs), (self.hidden_size,))

    @property
    def written_biases(self) -> tuple[str, ...]:
        return (BIAS,)

    def shared_shapes(self) -> Shapes:
        # SGLang's later layers have a norm of the embedding that they do not read.
        unread = (f"layers.{number}.input_layernorm.weight" for number in range(1, self.depth))
        return {
            **DrafterFormat.shared_shapes(self),
            INVERSE_MAP: (self.vocab_size,),
            **dict.fromkeys(unread, (self.hidden_size,)),
        }

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
            "eagle_config": {
                "use_aux_hidden_state": True,
                _LAYER_IDS: list(self.layers),
                **({"norm_before_fc": True} if self.norms_all else {}),
            },
            **({"fc_norm": True} if self.norms_each else {}),
            **({"norm_output": True} if self.norms_output else {}),
        }


def _layers_of(drafter: Json, eagle_config: Json, target: Json) -> tuple[int, ...]:
    named = eagle_config.get(_LAYER_IDS)
    layers = standard_layers(target) if named is None else tuple(int(layer) for layer in named)
    if not eagle_config.get("use_aux_hidden_state", True):
        layers = ()
    require_layers(layers, target, least=LEAST_LAYERS)
    if (count := drafter.get("num_aux_hidden_states")) not in {None, len(layers)}:
        raise WeightsError(
            f"the drafter's num_aux_hidden_states is {count}; accepted: {len(layers)}, as it names layers"
        )
    return layers
