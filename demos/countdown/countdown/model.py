"""
The tiny policy: a stock Llama with 3.3 M parameters, and the deepened version of it that engines serve.

The deepened model has more layers and exactly the same outputs. Its forward pass costs about as much as that of a
larger model (at this size, time depends on the number of layers, not on arithmetic), so speculative decoding pays off
as it does for real models.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from countdown.settings import LAYERS, SERVED_LAYERS
from countdown.vocabulary import BOS_ID, EOS_ID, PAD_ID, VOCABULARY_SIZE, save_tokenizer

HIDDEN: Final = 256
CHECKPOINT: Final = Path(__file__).parent / "checkpoint"
"""The trained policy shipped with the package; `tlt demo make-model` trains an equivalent one."""

WEIGHTS_FILE: Final = "model.safetensors"
CONFIG_FILE: Final = "config.json"

_LAYER_KEY = re.compile(r"model\.layers\.(\d+)\.(.+)")
_RESIDUAL_OUTPUTS = frozenset({"self_attn.o_proj.weight", "mlp.down_proj.weight"})


def policy_config(layers: int = LAYERS) -> LlamaConfig:
    """Return the policy's configuration. The policy and its deepened version differ only in `layers`."""
    return LlamaConfig(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=HIDDEN,
        intermediate_size=704,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=4096,
        rms_norm_eps=1e-6,
        tie_word_embeddings=False,
        pad_token_id=PAD_ID,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
    )


def new_policy(seed: int) -> LlamaForCausalLM:
    """Return an untrained policy in float32. Every layer starts as the identity because its residual output is zero."""
    model = _llama(policy_config())
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            nn.init.ones_(parameter)
        elif name.endswith(("o_proj.weight", "down_proj.weight")):
            nn.init.zeros_(parameter)
        elif "embed_tokens" in name:
            nn.init.normal_(parameter, std=0.5, generator=generator)
        else:
            nn.init.normal_(parameter, std=0.5 / HIDDEN**0.5, generator=generator)
    return model


def deepen_state(state: Mapping[str, Tensor], *, from_layers: int, to_layers: int) -> dict[str, Tensor]:
    """
    Return the state dict of a deeper Llama with bit-identical logits (block expansion, as in LLaMA Pro).

    Layers are spread evenly. Each added layer copies the original layer below it, except that its two projections
    into the residual stream, `o_proj` and `down_proj`, are zero, so it adds exactly nothing. Unchanged tensors are
    shared with `state`, not copied.

    Raises:
        ValueError: `to_layers` is less than `from_layers`.
    """
    if to_layers < from_layers:
        raise ValueError(f"cannot deepen {from_layers} layers to {to_layers}; accepted: at least {from_layers}")
    deep = {key: tensor for key, tensor in state.items() if not _LAYER_KEY.fullmatch(key)}
    for layer in range(to_layers):
        source = layer * from_layers // to_layers
        is_added = layer > 0 and (layer - 1) * from_layers // to_layers == source
        prefix = f"model.layers.{source}."
        for key in [key for key in state if key.startswith(prefix)]:
            part, tensor = key.removeprefix(prefix), state[key]
            is_zeroed = is_added and part in _RESIDUAL_OUTPUTS
            deep[f"model.layers.{layer}.{part}"] = torch.zeros_like(tensor) if is_zeroed else tensor
    return deep


def deepen(model: LlamaForCausalLM, layers: int = SERVED_LAYERS) -> LlamaForCausalLM:
    """Return a deepened version of `model` with the same dtype and logits. `model` is not modified."""
    config = LlamaConfig.from_dict(model.config.to_dict() | {"num_hidden_layers": layers})
    deep = _llama(config)
    state = deepen_state(model.state_dict(), from_layers=model.config.num_hidden_layers, to_layers=layers)
    # Assign the tensors: casting the module instead would also round its rotary frequencies.
    deep.load_state_dict({key: tensor.clone() for key, tensor in state.items()}, assign=True)
    deep.train(model.training)
    return deep


def _llama(config: LlamaConfig) -> LlamaForCausalLM:
    return LlamaForCausalLM(config)  # type: ignore[no-untyped-call,unused-ignore]


def save_checkpoint(model: LlamaForCausalLM, directory: Path) -> None:
    """Write bfloat16 weights, config and tokenizer to a directory that transformers and SGLang can load directly."""
    directory.mkdir(parents=True, exist_ok=True)
    state = {key: tensor.detach().to(torch.bfloat16) for key, tensor in model.state_dict().items()}
    _write(state, model.config, directory)


def write_served_checkpoint(small_dir: Path, out_dir: Path, layers: int = SERVED_LAYERS) -> None:
    """Write the deepened version of the checkpoint in `small_dir` to `out_dir`, including the tokenizer."""
    config = LlamaConfig.from_pretrained(small_dir)
    state = load_file(small_dir / WEIGHTS_FILE)
    deep = deepen_state(state, from_layers=config.num_hidden_layers, to_layers=layers)
    out_dir.mkdir(parents=True, exist_ok=True)
    _write(deep, LlamaConfig.from_dict(config.to_dict() | {"num_hidden_layers": layers}), out_dir)


def _write(state: Mapping[str, Tensor], config: LlamaConfig, directory: Path) -> None:
    # Clone: safetensors rejects tensors that share memory, as those of a deepened model do.
    save_file({key: tensor.clone() for key, tensor in state.items()}, directory / WEIGHTS_FILE, {"format": "pt"})
    content = config.to_diff_dict() | {"architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}
    (directory / CONFIG_FILE).write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
    save_tokenizer(directory)
