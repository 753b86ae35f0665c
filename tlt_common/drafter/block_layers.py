"""Layers of block drafters as described in their config.json, and unsupported variants."""

from collections.abc import Mapping
from typing import Any, Final

from tlt_common.drafter.published import WAY_OUT
from tlt_common.drafter.target_layers import require_layers
from tlt_common.errors import WeightsError

PUBLISHED_NAMES: Final = {"encoder.fc.weight": "fc.weight", "encoder.output_norm_enc.weight": "hidden_norm.weight"}
"""Other names of tensors, which SGLang knows as well."""
MASK_FILE: Final = "mask_embedding.pt"
"""An embedding of the mask in a file of its own, beside the weights."""

_UNSUPPORTED: Final[Mapping[str, tuple[object, ...]]] = {
    "attention_bias": (None, False),
    "attention_sink_bias": (None, False),
    "attention_value_scale": (None, 1, 1.0),
    "conv_kernel_size": (None, 0),
    "final_logit_softcapping": (None, 0, 0.0),
    "has_embed_tokens": (None, False),
    "has_lm_head": (None, False),
    "is_causal": (None, False),
    "is_neox_style": (None, True),
    "output_multiplier": (None, 1, 1.0),
    "projector_type": (None,),
    "quantization_config": (None,),
    "rope_dim": (None,),
    "rope_is_neox_style": (None, True),
    "selector_rank": (None, 0),
    "use_gemma_norm": (None, False),
}
"""Fields of variants that are not run, with the values that say that it is none."""


def require_supported(fields: Mapping[str, Any]) -> None:
    """
    Raises:
        WeightsError: A config.json, including nested fields, describes an unsupported variant; the message names the
            field.
    """
    rope = fields.get("rope_parameters") or fields.get("rope_scaling") or {}
    for name, accepted in _UNSUPPORTED.items():
        if (value := fields.get(name, rope.get(name))) not in accepted:
            raise WeightsError(f"the drafter's {name} is {value!r}; accepted: {accepted[-1]!r}. {WAY_OUT}")
    if others := sorted({str(kind) for kind in fields.get("layer_types") or ()} - {"full_attention"}):
        raise WeightsError(f"the drafter's layer_types has {others[0]!r}; accepted: 'full_attention'. {WAY_OUT}")


def target_layers_of(fields: Mapping[str, Any], target: Mapping[str, Any]) -> tuple[int, ...]:
    """
    Return the target layers that a drafter reads.

    Raises:
        WeightsError: It names none, or the target lacks them.
    """
    named = fields.get("target_layer_ids")
    if not isinstance(named, list | tuple):
        raise WeightsError(
            f"the drafter's target_layer_ids is {named!r}; accepted: the list of layers whose outputs it was trained "
            "with. Engines would guess them"
        )
    layers = tuple(map(int, named))
    require_layers(layers, target)
    return layers
