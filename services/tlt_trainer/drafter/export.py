"""
Exports a published drafter for other engines, with a model card.

Format `sglang` is the format of EAGLE's authors, which SGLang loads without our plug-in: the published files.

Format `vllm` differs. vLLM's layers have no bias (`models/llama_eagle.py`, `llama_eagle3.py`). For EAGLE it derives its
class from the architecture of the drafter's config.json, prefixing it with `Eagle`
(`transformers_utils/configs/eagle.py`). For EAGLE-3 it reads three layers, and numbers them by their inputs, from 1
(`v1/worker/gpu_model_runner.py`), where SGLang numbers them by their outputs, from 0.

A checkpoint's own head is written under the checkpoint's names: both engines read it as a part of that checkpoint.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save

from tlt_common.documents import json_of
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.meta import CONFIG_FILE, META_FILE, WEIGHTS_FILE, DrafterMeta, meta_of
from tlt_common.drafter.published import DFLASH, standard_config
from tlt_common.drafter.reading import FORMATS
from tlt_common.drafter.tensors import BIAS
from tlt_common.errors import WeightsError

CARD_FILE = "README.md"

LAYERS = "eagle_aux_hidden_state_layer_ids"
VLLM_LAYERS = 3

_CARD = """\
---
library_name: transformers
tags: [speculative-decoding, draft-model, {tag}]
{base}---

# {name} drafter

A draft model of {layers}, {hidden} wide, for speculative decoding with {target}, whose vocabulary has {vocabulary}
tokens, or a model fine-tuned from it. It uses {shares} of that model and cannot be used alone.

## Training

{training}

## Use

```bash
{launch}
```
"""
_TRAINED = """\
Version {version}, after {steps} steps on {tokens} tokens of the policy's own responses, from hidden states that its
rollouts had computed. On held-out prompts its most likely token was the policy's in {held_out_top1:.1%} of all
positions."""
_CHAIN = """ \\
  --speculative-num-steps 5 --speculative-eagle-topk 1 --speculative-num-draft-tokens 6"""
_LAUNCH = {
    "sglang": "python -m sglang.launch_server --model-path MODEL --speculative-algorithm NAME \\\n"
    "  --speculative-draft-model-path DIRCHAIN",
    "vllm": "vllm serve MODEL --speculative-config "
    """'{"method": "METHOD", "model": "DIR", "num_speculative_tokens": 5}'""",
}

_INTO = """\
# These tensors replace those of the same names in the model's checkpoint, which has the rest of the head. SGLang then
# drafts with them by --speculative-algorithm NEXTN, vLLM by --speculative-config '{"method": "mtp", ...}'.
cp DIR/model.safetensors MODEL/adapted-head.safetensors
python - MODEL <<'END'
import json, sys
from safetensors import safe_open
index = f"{sys.argv[1]}/model.safetensors.index.json"
said = json.load(open(index))
with safe_open(f"{sys.argv[1]}/adapted-head.safetensors", "pt") as head:
    said["weight_map"].update(dict.fromkeys(head.keys(), "adapted-head.safetensors"))
json.dump(said, open(index, "w"))
END"""


_NO_DRAFTER = "these are not the files of a drafter"


class ExportFormat(StrEnum):
    """The engine that will load a drafter."""

    SGLANG = "sglang"
    VLLM = "vllm"


def exported(files: Mapping[str, bytes], to: ExportFormat, *, model: str = "") -> dict[str, bytes]:
    """
    Return the files of an exported drafter: weights, config.json and a model card.

    Args:
        files: Files of a published drafter. Without meta.json the card omits its training.
        to: Engine that will load it.
        model: Name or path of the target, for the card.

    Raises:
        WeightsError: The files are damaged or do not form a drafter.
    """
    config, tensors = _read(files)
    architecture = _architecture(config)
    if architecture is not DrafterArchitecture.MTP:
        config = standard_config(config)[1]
    if to is ExportFormat.VLLM and architecture is DrafterArchitecture.BLOCK:
        raise WeightsError("block drafters cannot be exported for vLLM; accepted: sglang", field="format")
    if architecture is not DrafterArchitecture.MTP and "fc.weight" not in tensors:
        raise WeightsError(_NO_DRAFTER)
    if to is ExportFormat.VLLM and architecture is not DrafterArchitecture.MTP:
        config, tensors = _for_vllm(architecture, config, tensors)
    meta = meta_of(files) if META_FILE in files else None
    return {
        WEIGHTS_FILE: save(tensors, {"format": "pt"}),
        CONFIG_FILE: json.dumps(config, indent=2).encode() + b"\n",
        CARD_FILE: card(architecture, config, meta, to, model=model).encode(),
        **({META_FILE: json.dumps(asdict(meta), indent=2).encode() + b"\n"} if meta else {}),
    }


def card(
    architecture: DrafterArchitecture,
    config: Mapping[str, Any],
    meta: DrafterMeta | None,
    to: ExportFormat,
    *,
    model: str = "",
) -> str:
    """Return the model card, in Markdown with the metadata of the Hugging Face hub."""
    name = _algorithm(architecture, config)
    is_block, is_own = architecture is DrafterArchitecture.BLOCK, architecture is DrafterArchitecture.MTP
    layers = 1 if is_own else int(config.get("num_hidden_layers", 1))
    return _CARD.format(
        base=f"base_model: {json.dumps(model)}\n" if model else "",
        name=name,
        tag=name.lower() if is_block else "eagle",
        layers="one layer" if layers == 1 else f"{layers} layers",
        hidden=config["hidden_size"],
        vocabulary=config["vocab_size"],
        target=f"`{model}`" if model else "the model it was trained with",
        shares="the embedding" if architecture is DrafterArchitecture.EAGLE3 else "embedding and head",
        training=_TRAINED.format(**asdict(meta)) if meta else "No record of its training was published with it.",
        launch=_INTO
        if is_own
        else _LAUNCH[to]
        .replace("NAME", name)
        .replace("METHOD", name.lower())
        .replace("CHAIN", "" if is_block else _CHAIN),
    )


def _algorithm(architecture: DrafterArchitecture, config: Mapping[str, Any]) -> str:
    """Return SGLang's name of a drafter's algorithm."""
    if architecture is DrafterArchitecture.BLOCK:
        return "DFLASH" if config["architectures"] == [DFLASH] else "DSPARK"
    return architecture.upper()


def _for_vllm(
    architecture: DrafterArchitecture, config: Mapping[str, Any], tensors: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    if bool(tensors.get(BIAS, tensors["fc.weight"][:0]).any()):
        raise WeightsError(f"tensor {BIAS} is not zero, and vLLM's layer has no bias", field=BIAS)
    kept = {key: value for key, value in config.items() if key != "bias"}
    if architecture is DrafterArchitecture.EAGLE:
        kept["architectures"] = ["LlamaForCausalLM"]
    elif layers := (config.get("eagle_config") or {}).get(LAYERS):
        if len(layers) != VLLM_LAYERS:
            raise WeightsError(f"the drafter reads layers {layers}; vLLM reads {VLLM_LAYERS}", field=LAYERS)
        kept["eagle_config"] = {key: value for key, value in config["eagle_config"].items() if key != LAYERS}
        kept[LAYERS] = [layer + 1 for layer in layers]
    return kept, {name: tensor for name, tensor in tensors.items() if name != BIAS}


def _read(files: Mapping[str, bytes]) -> tuple[dict[str, Any], dict[str, Any]]:
    for name in (WEIGHTS_FILE, CONFIG_FILE):
        if name not in files:
            raise WeightsError(f"the drafter has no {name}", field=name)
    try:
        config, tensors = json_of(files[CONFIG_FILE]), load(files[WEIGHTS_FILE])
    except (ValueError, SafetensorError) as error:
        raise WeightsError(f"the drafter cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise WeightsError(_NO_DRAFTER)
    return config, tensors


def _architecture(config: Mapping[str, Any]) -> DrafterArchitecture:
    names = config.get("architectures")
    for architecture, form in FORMATS.items():
        if names in [[name] for name in form.model_classes] and {"hidden_size", "vocab_size"} <= config.keys():
            return architecture
    accepted = [name for form in FORMATS.values() for name in form.model_classes]
    raise WeightsError(f"the drafter's architectures are {names!r}; accepted: one of {accepted}")
