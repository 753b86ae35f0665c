"""
Translates published config.json variants of drafters to our formats.

Drafters are published by EAGLE's authors (named like a whole Llama), by vLLM's speculators (a block for the layer, and
layers numbered by their inputs) and under names with their target's family. Variants that differ in more than names are
refused.
"""

from collections.abc import Mapping
from typing import Any, Final

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.heads import HEADS
from tlt_common.errors import WeightsError

Json = Mapping[str, Any]

WAY_OUT: Final = "`tlt drafter train` makes one that is run"

_EAGLE: Final = (
    "LlamaForCausalLMEagle", "LlamaForCausalLM", "EagleLlamaForCausalLM", "Qwen2ForCausalLMEagle", "Qwen2ForCausalLM",
    "EagleQwen2ForCausalLM", "Qwen3ForCausalLMEagle", "Qwen3ForCausalLM", "EagleQwen3ForCausalLM",
)  # fmt: skip
_EAGLE3: Final = (
    "LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "Qwen2ForCausalLMEagle3", "Eagle3Qwen2ForCausalLM",
    "Qwen3ForCausalLMEagle3", "Eagle3Qwen3ForCausalLM",
)  # fmt: skip
DFLASH: Final = "DFlashDraftModel"
DSPARK: Final = ("Qwen3DSparkModel", "DSparkDraftModel", "LingDSparkModel")
"""Names of the same layers and head, for targets of several families."""
_BLOCK: Final = (DFLASH, *DSPARK)
_HEADS: Final = tuple(row.model_class for row in HEADS.values())
_LAYER_IDS: Final = "eagle_aux_hidden_state_layer_ids"
_LAYER: Final = "transformer_layer_config"
"""Of speculators: the layer's own configuration."""
_KIND: Final = "speculators_model_type"
_OF_SPECULATORS: Final = (DrafterArchitecture.EAGLE, DrafterArchitecture.EAGLE3)


def standard_config(published: Json) -> tuple[DrafterArchitecture, dict[str, Any]]:
    """
    Return a drafter's architecture, and its config.json in the form of that architecture's format.

    Unknown fields stay unchanged.

    Raises:
        WeightsError: The config.json does not describe a supported drafter.
    """
    if _KIND in published or _LAYER in published:
        return _of_speculators(published)
    names = published.get("architectures") or [None]
    name = names[0] if isinstance(names, list) else names
    if name in _EAGLE3 or (name in _EAGLE and published.get("draft_vocab_size")):
        return DrafterArchitecture.EAGLE3, _numbered_by_outputs(published)
    if name in _EAGLE:
        return DrafterArchitecture.EAGLE, dict(published)
    if name in _BLOCK:
        return DrafterArchitecture.BLOCK, {**published, "architectures": [name]}
    if name in _HEADS:
        return DrafterArchitecture.MTP, dict(published)
    accepted = ", ".join((*_EAGLE, *_EAGLE3, *_BLOCK, *_HEADS))
    raise WeightsError(f"the drafter's architecture is {name!r}; accepted: {accepted}")


def _of_speculators(published: Json) -> tuple[DrafterArchitecture, dict[str, Any]]:
    kind, layer = published.get(_KIND), published.get(_LAYER)
    if kind == "dflash":
        raise WeightsError(
            f"the drafter's {_KIND} is 'dflash': a DFlash with a head and a vocabulary of its own; accepted: DFlash as "
            f"its authors write it (architectures {DFLASH}, a dflash_config), which drafts with its target's head. "
            f"{WAY_OUT}"
        )
    if kind not in _OF_SPECULATORS:
        accepted = ", ".join(_OF_SPECULATORS)
        raise WeightsError(f"the drafter's {_KIND} is {kind!r}; accepted: {accepted}. {WAY_OUT}")
    if not isinstance(layer, Mapping):
        raise WeightsError(f"the drafter's {_LAYER} is {layer!r}; accepted: the configuration of its layer")
    if published.get("layernorms"):
        raise WeightsError(f"the drafter's layernorms is set, which is not supported. {WAY_OUT}")
    architecture = DrafterArchitecture(kind)
    found = {**layer, "max_position_embeddings": layer.get("max_position_embeddings")}
    if architecture is DrafterArchitecture.EAGLE3:
        if "norm_before_residual" not in published:
            raise WeightsError("the drafter's config.json has no norm_before_residual; accepted: false")
        for name in ("draft_vocab_size", "norm_before_residual", "norm_before_fc", "target_hidden_size"):
            found[name] = published.get(name)
        if named := published.get(_LAYER_IDS):
            found["eagle_config"] = {"use_aux_hidden_state": True, _LAYER_IDS: [int(layer) - 1 for layer in named]}
    return architecture, found


def _numbered_by_outputs(published: Json) -> dict[str, Any]:
    """
    Return an EAGLE-3 drafter's config.json with its layers numbered as in SGLang and in our formats.

    The place of the key determines the numbering: nested in `eagle_config`, as in EAGLE and SGLang, it numbers outputs
    of layers from 0; at the top level, as in vLLM and speculators, it numbers inputs of layers.
    """
    at_top, own = published.get(_LAYER_IDS), published.get("eagle_config") or {}
    found = {key: value for key, value in published.items() if key != _LAYER_IDS}
    if at_top is None:
        return found
    layers = [int(layer) - 1 for layer in at_top]
    if (nested := own.get(_LAYER_IDS, layers)) != layers:
        raise WeightsError(
            f"the drafter's {_LAYER_IDS} is {list(at_top)}, and {nested} in eagle_config; accepted: one of them, or "
            "inputs of layers at the top and outputs, one less, in eagle_config"
        )
    return {**found, "eagle_config": {**own, _LAYER_IDS: layers}}
