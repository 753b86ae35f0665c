"""Whether the files of a model are complete: every tensor of its config.json, with its shape."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tlt_common.documents import json_of
from tlt_common.errors import ConfigError, WeightsError
from tlt_worker.engine.checkpoints.policy import TensorHeader, read_headers
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.families import Family, head_size, kv_heads, require_runnable
from tlt_worker.model_config import read_config

_FLOATS = ("BF16", "F16", "F32")
_SIDECARS = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")
"""Files that say by themselves that a checkpoint is quantised."""
_INDEX = "model.safetensors.index.json"
_TOKENIZER = "tokenizer.json"


def require_model(directory: Path, engine: EngineConfig) -> dict[str, TensorHeader]:
    """
    Check everything about a model that its files tell; return the headers of its tensors. Reads no tensor.

    Raises:
        ConfigError: An engine cannot run it; the message says why, and what is accepted.
    """
    config = read_config(directory)
    family = require_runnable(config, engine)
    for name in _SIDECARS:
        if (directory / name).is_file():
            raise _refused(directory, f"is quantised: it has {name}; accepted: an unquantised checkpoint")
    _require_shards(directory)
    try:
        headers = read_headers(directory)
    except WeightsError as error:
        raise ConfigError(f"model: {error.message}{_other_weights(directory)}", field="model") from error
    _require_tensors(directory, expected_tensors(config, family), headers)
    _require_tokenizer(directory, config["vocab_size"])
    return headers


def expected_tensors(config: Mapping[str, Any], family: Family) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor a model of this config.json has, by its name in transformers."""
    hidden, inner, size = config["hidden_size"], config["intermediate_size"], head_size(config)
    queries, keys = config["num_attention_heads"] * size, kv_heads(config) * size
    layer: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
    }
    if family.norms_heads:
        layer |= {"self_attn.q_norm.weight": (size,), "self_attn.k_norm.weight": (size,)}
    if family.always_biased or config.get("attention_bias"):
        layer |= {f"self_attn.{name}_proj.bias": (rows,) for name, rows in (("q", queries), ("k", keys), ("v", keys))}
    if not family.always_biased and config.get("attention_bias"):
        layer["self_attn.o_proj.bias"] = (hidden,)
    whole = (config["vocab_size"], hidden)
    head = {} if config.get("tie_word_embeddings", False) else {"lm_head.weight": whole}
    return {
        "model.embed_tokens.weight": whole,
        **{
            f"model.layers.{number}.{name}": shape
            for number in range(config["num_hidden_layers"])
            for name, shape in layer.items()
        },
        "model.norm.weight": (hidden,),
        **head,
    }


def _require_shards(directory: Path) -> None:
    """Check that every file the index lists is there: a download may have been cut short."""
    path = directory / _INDEX
    if not path.is_file():
        return
    try:
        listed = set(json_of(path.read_bytes())["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _refused(directory, f"has a {_INDEX} that cannot be read: {error!r}") from error
    if missing := sorted(str(name) for name in listed if not (directory / str(name)).is_file()):
        raise _refused(
            directory, f"lacks {len(missing)} of the {len(listed)} files in {_INDEX}, first {missing[0]}; copy it whole"
        )


def _other_weights(directory: Path) -> str:
    for pattern in ("*.bin", "*.pt", "*.pth", "*.gguf", "*.npz"):
        if found := sorted(directory.glob(pattern)):
            return (
                f"; it has {found[0].name}: load it in transformers and call save_pretrained, which writes safetensors"
            )
    return ""


def _require_tensors(
    directory: Path, expected: Mapping[str, tuple[int, ...]], found: Mapping[str, TensorHeader]
) -> None:
    for name, header in found.items():
        if name in expected and header.dtype not in _FLOATS:
            raise _refused(directory, f"has tensor {name} of type {header.dtype}; accepted: {', '.join(_FLOATS)}")
    if missing := [name for name in expected if name not in found]:
        others = [name for name in found if name not in expected]
        instead = f"; it has {others[0]} instead" if others else ""
        raise _refused(
            directory,
            f"lacks {len(missing)} of the {len(expected)} tensors of its config.json, first {missing[0]} of shape "
            f"{list(expected[missing[0]])}{instead}",
        )
    for name, shape in expected.items():
        if found[name].shape != shape:
            raise _refused(
                directory, f"has tensor {name} of shape {list(found[name].shape)}; its config.json says {list(shape)}"
            )


def _require_tokenizer(directory: Path, vocab_size: int) -> None:
    """Check that the tokenizer can be one of this model. Tokens that were only added need no embedding until used."""
    path = directory / _TOKENIZER
    if not path.is_file():
        return
    try:
        vocabulary = json_of(path.read_bytes())["model"].get("vocab") or {}
        last = max(vocabulary.values() if isinstance(vocabulary, dict) else [len(vocabulary) - 1], default=0)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _refused(directory, f"has a {_TOKENIZER} that cannot be read: {error!r}") from error
    if last >= vocab_size:
        raise _refused(
            directory, f"has a {_TOKENIZER} with token {last}; its config.json has a vocab_size of {vocab_size}"
        )


def _refused(directory: Path, reason: str) -> ConfigError:
    return ConfigError(f"model: {directory} {reason}", field="model")
