"""
What of a drafter is fixed when an engine is launched: its architecture and sizes. No torch here.

A drafter given at the start may have any form its target allows; one that comes later has to have the form of the
drafter before, since SGLang's memory and graphs are made for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tlt_common.domain.drafter import DrafterModel
from tlt_common.errors import WeightsError

DRAFT_VOCABULARY = 32_000
"""Most tokens an EAGLE-3 drafter's head has unless somebody says otherwise: what published ones have."""

ARCHITECTURES = {"LlamaForCausalLMEagle": DrafterModel.EAGLE, "LlamaForCausalLMEagle3": DrafterModel.EAGLE3}
_LAUNCHED = {DrafterModel.EAGLE: "LlamaForCausalLMEagle", DrafterModel.EAGLE3: "TltEagle3"}
_UNSUPPORTED = (
    "attention_bias", "mlp_bias", "norm_before_fc", "norm_before_residual", "fc_norm", "use_aux_norm", "norm_output",
)  # fmt: skip
"""Variants of the layer that nobody has needed yet; they are in the configuration only where they are used."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterForm:
    """Architecture and sizes of a drafter of one Llama layer, whatever its target's family."""

    kind: DrafterModel
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    rope: Json
    """As transformers 5 writes `rope_parameters`."""
    draft_vocab_size: int
    """Tokens its own head knows (EAGLE-3), or the target's."""
    layers: tuple[int, ...] = ()
    """The target's layers whose outputs it reads (EAGLE-3), in order; none for EAGLE, which reads the last one's."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the tensors such a drafter must have, by the names SGLang knows them by."""
        hidden, inner, size = self.hidden_size, self.intermediate_size, self.head_dim
        layer = "layers.0."
        is_eagle3 = self.kind == DrafterModel.EAGLE3
        read = 2 * hidden if is_eagle3 else hidden
        found: dict[str, tuple[int, ...]] = {
            "fc.weight": (hidden, (len(self.layers) if is_eagle3 else 2) * hidden),
            f"{layer}self_attn.q_proj.weight": (self.heads * size, read),
            f"{layer}self_attn.k_proj.weight": (self.kv_heads * size, read),
            f"{layer}self_attn.v_proj.weight": (self.kv_heads * size, read),
            f"{layer}self_attn.o_proj.weight": (hidden, self.heads * size),
            f"{layer}mlp.gate_proj.weight": (inner, hidden),
            f"{layer}mlp.up_proj.weight": (inner, hidden),
            f"{layer}mlp.down_proj.weight": (hidden, inner),
            f"{layer}post_attention_layernorm.weight": (hidden,),
        }
        if is_eagle3:
            norms = (f"{layer}input_layernorm.weight", f"{layer}hidden_norm.weight", "norm.weight")
            found |= {**dict.fromkeys(norms, (hidden,)), "lm_head.weight": (self.draft_vocab_size, hidden)}
        return found

    def config(self, target: Json) -> dict[str, Any]:
        """Return the configuration SGLang builds the drafter from. Where the form is silent, it is the target's."""
        kept = ("max_position_embeddings", "bos_token_id", "eos_token_id", "pad_token_id", "torch_dtype", "dtype")
        eagle3 = {
            "draft_vocab_size": self.draft_vocab_size,
            "eagle_config": {
                "use_aux_hidden_state": True,
                "eagle_aux_hidden_state_layer_ids": list(self.layers),
            },
        }
        return {
            **{key: target[key] for key in kept if key in target},
            "architectures": [_LAUNCHED[self.kind]],
            "model_type": "llama",
            "num_hidden_layers": 1,
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "rms_norm_eps": self.norm_eps,
            "rope_parameters": dict(self.rope),
            "hidden_act": "silu",
            # Also for a tied target: SGLang puts the target's embedding and head in place one after the other, and
            # fails if they are one module.
            "tie_word_embeddings": False,
            "attention_bias": False,
            "mlp_bias": False,
            "bias": True,  # of fc: a drafter without one gets zeros
            **(eagle3 if self.kind == DrafterModel.EAGLE3 else {}),
        }


def standard_form(kind: DrafterModel, target: Json, *, draft_vocabulary: int | None = None) -> DrafterForm:
    """
    Return the form drafters for a target have unless they say otherwise: one of its own layers.

    Raises:
        WeightsError: The target has too few layers for EAGLE-3's low, middle and high one.
    """
    layers: tuple[int, ...] = ()
    vocabulary = int(target["vocab_size"])
    if kind == DrafterModel.EAGLE3:
        layers = _standard_layers(target)
        vocabulary = min(vocabulary, draft_vocabulary or DRAFT_VOCABULARY)
    return _form(kind, target, draft_vocabulary=vocabulary, layers=layers)


def form_of(drafter: Json, target: Json) -> DrafterForm:
    """
    Read a drafter's configuration.

    Raises:
        WeightsError: It is not one of a drafter, or of one for another target, or of a variant we do not run.
    """
    try:
        return _form_of(drafter, target)
    except KeyError as error:
        raise WeightsError(f"the drafter's config.json has no {error.args[0]}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise WeightsError(f"the drafter's config.json is not one of a drafter: {error}") from error


def require_fit(running: DrafterForm, offered: DrafterForm) -> None:
    """
    Check that a drafter can take the place of the running one.

    Raises:
        WeightsError: It is of another form; names the first difference.
    """
    for name in (field.name for field in fields(DrafterForm)):
        ours, theirs = getattr(running, name), getattr(offered, name)
        fits = ours == theirs
        if name == "draft_vocab_size":
            fits = theirs <= ours
        elif name == "rope":
            fits = all(ours[key] == theirs[key] for key in ours.keys() & theirs.keys())
        if not fits:
            shown = [str(value) if isinstance(value, DrafterModel) else value for value in (theirs, ours)]
            raise WeightsError(f"the drafter's {name} is {shown[0]!r}; the engine was launched for {shown[1]!r}")


def _form_of(drafter: Json, target: Json) -> DrafterForm:
    architecture = (drafter.get("architectures") or [None])[0]
    kind = ARCHITECTURES.get(architecture)
    if kind is None:
        raise WeightsError(f"the drafter's architecture is {architecture!r}; accepted: {', '.join(ARCHITECTURES)}")
    for name in ("hidden_size", "vocab_size"):
        if int(drafter[name]) != int(target[name]):
            raise WeightsError(
                f"the drafter's {name} is {drafter[name]}; that of the model it drafts for: {target[name]}"
            )
    if int(drafter.get("num_hidden_layers", 1)) != 1:
        raise WeightsError(f"the drafter's num_hidden_layers is {drafter['num_hidden_layers']}; accepted: 1")
    eagle_config = drafter.get("eagle_config") or {}
    for name in _UNSUPPORTED:
        if drafter.get(name) or eagle_config.get(name):
            raise WeightsError(f"the drafter's {name} is set; accepted: a drafter without it")
    if kind == DrafterModel.EAGLE:
        return _form(kind, drafter, draft_vocabulary=int(drafter["vocab_size"]), layers=())
    named = eagle_config.get("eagle_aux_hidden_state_layer_ids", drafter.get("eagle_aux_hidden_state_layer_ids"))
    layers = _standard_layers(target) if named is None else tuple(int(layer) for layer in named)
    last = int(target["num_hidden_layers"]) - 2  # SGLang captures what goes into a layer, and none follows the last
    if not eagle_config.get("use_aux_hidden_state", True) or len(layers) < 2:  # SGLang's fc takes two or more
        raise WeightsError(f"the drafter reads layers {list(layers)} of its target; accepted: two layers or more")
    if list(layers) != sorted(set(layers)) or layers[0] < 0 or layers[-1] > last:
        raise WeightsError(f"the drafter reads layers {list(layers)}; accepted: ascending numbers from 0 to {last}")
    vocabulary = int(drafter.get("draft_vocab_size") or drafter["vocab_size"])
    if not 1 <= vocabulary <= int(target["vocab_size"]):
        raise WeightsError(f"the drafter's draft_vocab_size is {vocabulary}; accepted: 1 to {target['vocab_size']}")
    return _form(kind, drafter, draft_vocabulary=vocabulary, layers=layers)


def _form(kind: DrafterModel, config: Json, *, draft_vocabulary: int, layers: tuple[int, ...]) -> DrafterForm:
    hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    return DrafterForm(
        kind=kind,
        vocab_size=int(config["vocab_size"]),
        hidden_size=hidden,
        intermediate_size=int(config["intermediate_size"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or hidden // heads),
        norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        rope=_rope_of(config),
        draft_vocab_size=draft_vocabulary,
        layers=layers,
    )


def _rope_of(config: Json) -> dict[str, Any]:
    # transformers 5 writes one block, earlier versions a number and an optional block.
    block: Json = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return {
        **{key: value for key, value in block.items() if key != "type" and value is not None},
        "rope_type": str(block.get("rope_type") or block.get("type") or "default"),
        "rope_theta": float(block.get("rope_theta") or config.get("rope_theta") or 10_000.0),
    }


def _standard_layers(target: Json) -> tuple[int, ...]:
    """Name the outputs that SGLang and the paper's code take by default: what goes into layers 2, L/2 and L-3."""
    count = int(target["num_hidden_layers"])
    layers = (1, count // 2 - 1, count - 4)
    if not layers[0] < layers[1] < layers[2]:
        raise WeightsError(
            f"a target of {count} layers has no low, middle and high one; accepted: a drafter that names them"
        )
    return layers
