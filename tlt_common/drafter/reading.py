"""Derives a drafter's format from its own config.json or from that of its target."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tlt_common.drafter.architecture import MODEL_CLASSES, DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.published import WAY_OUT, standard_config
from tlt_common.drafter.rope import DEFAULT_POSITIONS, rope_parameters, rope_refusal
from tlt_common.errors import ConfigError, WeightsError
from tlt_common.weights.tied_head import is_tied

DRAFT_VOCABULARY: Final = 32_000
"""Default number of tokens in an EAGLE-3 drafter's head, as in published drafters."""

_NOT_A_CONFIG = (TypeError, ValueError, AttributeError, OverflowError, ZeroDivisionError)
"""Raised by conversions of values that have other types or are out of range."""

_ARCHITECTURES = {name: architecture for architecture, name in MODEL_CLASSES.items()}
_UNSUPPORTED = (
    "mlp_bias", "norm_before_fc", "norm_before_residual", "fc_norm", "use_aux_norm", "norm_output",
)  # fmt: skip
"""Unsupported variants of the layer; config.json contains them only if they are used."""

_SIZES = (
    "vocab_size", "hidden_size", "intermediate_size", "heads", "kv_heads", "head_dim", "draft_vocab_size",
    "max_positions",
)  # fmt: skip

Json = Mapping[str, Any]


def standard_format(
    architecture: DrafterArchitecture,
    target: Json,
    *,
    draft_vocabulary: int | None = None,
    layers: Sequence[int] | None = None,
) -> DrafterFormat:
    """
    Return the default format of drafters for a target: one of the target's own layers.

    Args:
        architecture: Of the drafter.
        target: config.json of the target.
        draft_vocabulary: Tokens of an EAGLE-3 head, at most; None: DRAFT_VOCABULARY.
        layers: Layers of the target that an EAGLE-3 drafter reads; None: a low, a middle and a high one.

    Raises:
        ConfigError: The target's config.json lacks a size, which the message names, or a value of it cannot be used.
        WeightsError: The target does not have these layers, or too few to choose from.
    """
    try:
        read: tuple[int, ...] = ()
        vocabulary = int(target["vocab_size"])
        if architecture == DrafterArchitecture.EAGLE3:
            read = _standard_layers(target) if layers is None else tuple(layers)
            _require_layers(read, target)
            vocabulary = min(vocabulary, draft_vocabulary or DRAFT_VOCABULARY)
        form = _format(architecture, target, target, draft_vocabulary=vocabulary, layers=read)
        return _runnable(form)
    except KeyError as error:
        name = str(error.args[0])
        raise ConfigError(
            f"model: config.json has no {name}, which the drafter's format requires", field="model"
        ) from error
    except _NOT_A_CONFIG as error:
        raise ConfigError(f"model: config.json does not describe a supported model: {error}", field="model") from error


def _runnable(form: DrafterFormat) -> DrafterFormat:
    """
    Return the format of a Llama layer that is as near to its target's layers as transformers and SGLang accept.

    It rotates whole heads, also if its target rotates a part; and its heads divide its hidden size, also if the
    target's do not (GLM-4.5 has 96 for 4096).
    """
    rope = {name: value for name, value in form.rope.items() if name != "partial_rotary_factor"}
    if form.hidden_size % form.heads == 0:
        return replace(form, rope=rope)
    heads = max(1, form.hidden_size // form.head_dim)
    while form.hidden_size % heads:
        heads -= 1
    return replace(form, rope=rope, heads=heads, kv_heads=math.gcd(heads, form.kv_heads))


def format_of(drafter: Json, target: Json) -> DrafterFormat:
    """
    Return the format described by a drafter's config.json.

    Raises:
        WeightsError: It does not describe a drafter, or describes one for another target or an unsupported variant.
    """
    try:
        return _format_of(drafter, target)
    except KeyError as error:
        raise WeightsError(f"the drafter's config.json has no {error.args[0]}") from error
    except _NOT_A_CONFIG as error:
        raise WeightsError(f"the drafter's config.json does not describe a drafter: {error}") from error


def _format_of(drafter: Json, target: Json) -> DrafterFormat:
    drafter = standard_config(drafter)
    architecture = _ARCHITECTURES[drafter["architectures"][0]]
    eagle_config = drafter.get("eagle_config") or {}
    _require_supported(drafter, eagle_config, target)
    if architecture == DrafterArchitecture.EAGLE:
        return _format(architecture, drafter, target, draft_vocabulary=int(drafter["vocab_size"]), layers=())
    vocabulary = int(drafter.get("draft_vocab_size") or drafter["vocab_size"])
    if not 1 <= vocabulary <= int(target["vocab_size"]):
        raise WeightsError(f"the drafter's draft_vocab_size is {vocabulary}; accepted: 1 to {target['vocab_size']}")
    layers = _layers_of(drafter, eagle_config, target)
    return _format(architecture, drafter, target, draft_vocabulary=vocabulary, layers=layers)


def _require_supported(drafter: Json, eagle_config: Json, target: Json) -> None:
    for name in ("hidden_size", "vocab_size"):
        if int(drafter[name]) != int(target[name]):
            raise WeightsError(f"the drafter's {name} is {drafter[name]}; accepted: {target[name]}, as in its target")
    # Some authors copy the target's number; the tensors then tell whether there is one layer.
    if int(drafter.get("num_hidden_layers", 1)) not in {1, int(target.get("num_hidden_layers", 1))}:
        raise WeightsError(f"the drafter's num_hidden_layers is {drafter['num_hidden_layers']}; accepted: 1. {WAY_OUT}")
    if (activation := drafter.get("hidden_act", "silu")) != "silu":
        raise WeightsError(f"the drafter's hidden_act is {activation!r}; accepted: 'silu'. {WAY_OUT}")
    for name in _UNSUPPORTED:
        if drafter.get(name) or eagle_config.get(name):
            raise WeightsError(f"the drafter's {name} is set; accepted: a drafter without it. {WAY_OUT}")
    if (width := drafter.get("target_hidden_size")) not in {None, drafter["hidden_size"]}:
        raise WeightsError(f"the drafter's target_hidden_size is {width}; accepted: its hidden_size. {WAY_OUT}")
    if reason := rope_refusal(rope_parameters(drafter)):
        raise WeightsError(f"the drafter cannot be run: {reason}")


def _layers_of(drafter: Json, eagle_config: Json, target: Json) -> tuple[int, ...]:
    named = eagle_config.get("eagle_aux_hidden_state_layer_ids", drafter.get("eagle_aux_hidden_state_layer_ids"))
    layers = _standard_layers(target) if named is None else tuple(int(layer) for layer in named)
    if not eagle_config.get("use_aux_hidden_state", True):
        layers = ()
    _require_layers(layers, target)
    if (count := drafter.get("num_aux_hidden_states")) not in {None, len(layers)}:
        raise WeightsError(
            f"the drafter's num_aux_hidden_states is {count}; accepted: {len(layers)}, as it names layers"
        )
    return layers


def _require_layers(layers: tuple[int, ...], target: Json) -> None:
    last = int(target["num_hidden_layers"]) - 2  # SGLang captures the input of a layer, and no layer follows the last
    if len(layers) < 2:  # SGLang's fc requires at least two
        raise WeightsError(f"the drafter reads layers {list(layers)} of its target; accepted: at least two layers")
    if list(layers) != sorted(set(layers)) or layers[0] < 0 or layers[-1] > last:
        raise WeightsError(f"the drafter reads layers {list(layers)}; accepted: ascending numbers from 0 to {last}")


def _standard_layers(target: Json) -> tuple[int, ...]:
    """Return the layers used by default by SGLang and the paper's code: the inputs of layers 2, L/2 and L-3."""
    count = int(target["num_hidden_layers"])
    layers = (1, count // 2 - 1, count - 4)
    if not layers[0] < layers[1] < layers[2]:
        raise WeightsError(f"the target has only {count} layers; accepted: a drafter that names the layers it reads")
    return layers


def _format(
    architecture: DrafterArchitecture, config: Json, target: Json, *, draft_vocabulary: int, layers: tuple[int, ...]
) -> DrafterFormat:
    hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    form = DrafterFormat(
        architecture=architecture,
        vocab_size=int(config["vocab_size"]),
        hidden_size=hidden,
        intermediate_size=int(config["intermediate_size"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or hidden // heads),
        norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        rope=rope_parameters(config),
        draft_vocab_size=draft_vocabulary,
        layers=layers,
        is_target_tied=is_tied(target),
        max_positions=int(config.get("max_position_embeddings") or DEFAULT_POSITIONS),
    )
    for name in _SIZES:
        if (size := getattr(form, name)) < 1:
            raise ValueError(f"{name} is {size}; accepted: 1 and above")
    return form
