"""
Architecture and sizes of a drafter, which determine its tensors and its config.json.

An engine's memory and CUDA graphs are made for one format at launch: the first drafter may have any format its target
allows, and later ones must be compatible (`require_fit`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from tlt_common.drafter.architecture import MODEL_CLASSES, DrafterArchitecture
from tlt_common.drafter.rope import rope_fields
from tlt_common.drafter.tensors import BIAS, HEAD, LAYER
from tlt_common.errors import WeightsError

_INHERITED = ("max_position_embeddings", "bos_token_id", "eos_token_id", "pad_token_id", "torch_dtype", "dtype")

Json = Mapping[str, Any]
NOTHING: Json = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterFormat:
    """Format of a drafter with one Llama layer, whatever the family of its target."""

    architecture: DrafterArchitecture
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    rope: Json
    """`rope_parameters` as written by transformers 5."""
    draft_vocab_size: int
    """Number of tokens in the drafter's head. Equals `vocab_size` for EAGLE, which uses the target's head."""
    layers: tuple[int, ...] = ()
    """Target layers whose outputs an EAGLE-3 drafter reads, ascending. Empty for EAGLE, which reads the last one."""
    is_target_tied: bool = False
    """Whether the target's head is its embedding."""
    max_positions: int = 8192
    """Maximum context in tokens, as stated in config.json. No tensor depends on it."""

    @property
    def is_eagle3(self) -> bool:
        """Whether the drafter has its own head and token map."""
        return self.architecture == DrafterArchitecture.EAGLE3

    @property
    def captured_size(self) -> int:
        """Elements of a captured state of the target: the outputs of `layers`, then its last state."""
        return (len(self.layers) + 1) * self.hidden_size

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each required tensor, by SGLang's names."""
        hidden, inner, size = self.hidden_size, self.intermediate_size, self.head_dim
        read = 2 * hidden if self.is_eagle3 else hidden
        found: dict[str, tuple[int, ...]] = {
            "fc.weight": (hidden, (len(self.layers) if self.is_eagle3 else 2) * hidden),
            f"{LAYER}self_attn.q_proj.weight": (self.heads * size, read),
            f"{LAYER}self_attn.k_proj.weight": (self.kv_heads * size, read),
            f"{LAYER}self_attn.v_proj.weight": (self.kv_heads * size, read),
            f"{LAYER}self_attn.o_proj.weight": (hidden, self.heads * size),
            f"{LAYER}mlp.gate_proj.weight": (inner, hidden),
            f"{LAYER}mlp.up_proj.weight": (inner, hidden),
            f"{LAYER}mlp.down_proj.weight": (hidden, inner),
            f"{LAYER}post_attention_layernorm.weight": (hidden,),
        }
        if self.is_eagle3:
            norms = (f"{LAYER}input_layernorm.weight", f"{LAYER}hidden_norm.weight", "norm.weight")
            found |= {**dict.fromkeys(norms, (hidden,)), HEAD: (self.draft_vocab_size, hidden)}
        return found

    def bias_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each bias that SGLang's layer has, by SGLang's names. A file may have any of them."""
        rows = {"o": self.hidden_size}
        if not self.is_eagle3:
            rows |= {"q": self.heads * self.head_dim, **dict.fromkeys("kv", self.kv_heads * self.head_dim)}
        return {BIAS: (self.hidden_size,), **{f"{LAYER}self_attn.{name}_proj.bias": (n,) for name, n in rows.items()}}

    def config(self, inherited: Json = NOTHING) -> dict[str, Any]:
        """Return the config.json. `inherited` adds what the format does not define: token ids, dtype, positions."""
        eagle3 = {
            "draft_vocab_size": self.draft_vocab_size,
            "eagle_config": {
                "use_aux_hidden_state": True,
                "eagle_aux_hidden_state_layer_ids": list(self.layers),
            },
        }
        return {
            "max_position_embeddings": self.max_positions,
            **{key: inherited[key] for key in _INHERITED if key in inherited},
            "architectures": [MODEL_CLASSES[self.architecture]],
            "model_type": "llama",
            "num_hidden_layers": 1,
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "rms_norm_eps": self.norm_eps,
            **rope_fields(self.rope),
            "hidden_act": "silu",
            # Also for a tied target: SGLang replaces embedding and head one after the other, which fails if they are
            # the same module.
            "tie_word_embeddings": False,
            "attention_bias": False,
            "mlp_bias": False,
            "bias": True,  # of fc and attention; zeros if the drafter has none
            **(eagle3 if self.is_eagle3 else {}),
        }


def require_fit(running: DrafterFormat, offered: DrafterFormat) -> None:
    """
    Check that a drafter can replace the running one.

    Raises:
        WeightsError: The formats are incompatible; names the first difference.
    """
    for name in (field.name for field in fields(DrafterFormat) if field.name != "max_positions"):
        ours, theirs = getattr(running, name), getattr(offered, name)
        fits = ours == theirs
        if name == "draft_vocab_size":
            fits = theirs <= ours
        elif name == "rope":
            fits = all(ours[key] == theirs[key] for key in ours.keys() & theirs.keys())
        if not fits:
            shown = [str(value) if isinstance(value, DrafterArchitecture) else value for value in (theirs, ours)]
            raise WeightsError(f"the drafter's {name} is {shown[0]!r}; the engine was launched for {shown[1]!r}")
