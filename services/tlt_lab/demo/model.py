"""
The tiny policy: a stock Llama of 3.3 M parameters, and the deep image of it that engines serve.

A deep image has more layers and the very same outputs. It makes a forward pass cost what a larger model's costs
(time per layer, not arithmetic, dominates at this size), so speculative decoding pays as it does for real models.
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

from tlt_lab.demo.vocabulary import BOS_ID, EOS_ID, PAD_ID, VOCABULARY_SIZE, save_tokenizer

HIDDEN: Final = 256
LAYERS: Final = 4
SERVED_LAYERS: Final = 24
"""At this depth verifying 8 tokens costs little more than one, also on a CPU."""

CHECKPOINT: Final = Path(__file__).parent / "checkpoint"
"""The trained policy that ships with the package; `tlt demo make-model` makes one like it."""

WEIGHTS_FILE: Final = "model.safetensors"
CONFIG_FILE: Final = "config.json"

_LAYER_KEY = re.compile(r"model\.layers\.(\d+)\.(.+)")
_RESIDUAL_OUTPUTS = frozenset({"self_attn.o_proj.weight", "mlp.down_proj.weight"})


def policy_config(layers: int = LAYERS) -> LlamaConfig:
    """The policy's shape; only the number of layers differs between the policy and its deep image."""
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
    """An untrained policy in float32: every layer starts as the identity, since what it adds is zero."""
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
    The state dict of a deeper Llama with bit-identical logits (block expansion, as in LLaMA Pro).

    Layers are spread evenly. Each added layer is a copy of the real one below it, except that its two projections
    into the residual stream, `o_proj` and `down_proj`, are zero: it adds exactly nothing. Tensors that are equal
    are shared with `state`, not copied.

    Raises:
        ValueError: `to_layers` is less than `from_layers`.
    """
    if to_layers < from_layers:
        raise ValueError(f"cannot deepen {from_layers} layers to {to_layers}; ask for at least {from_layers}")
    deep = {key: tensor for key, tensor in state.items() if not _LAYER_KEY.fullmatch(key)}
    for layer in range(to_layers):
        source = layer * from_layers // to_layers
        is_added = layer > 0 and (layer - 1) * from_layers // to_layers == source
        prefix = f"model.layers.{source}."
        for key in [key for key in state if key.startswith(prefix)]:
            part, tensor = key.removeprefix(prefix), state[key]
            is_silenced = is_added and part in _RESIDUAL_OUTPUTS
            deep[f"model.layers.{layer}.{part}"] = torch.zeros_like(tensor) if is_silenced else tensor
    return deep


def deepen(model: LlamaForCausalLM, layers: int = SERVED_LAYERS) -> LlamaForCausalLM:
    """A deep image of `model`, with its dtype and logits; `model` itself is left alone."""
    config = LlamaConfig.from_dict(model.config.to_dict() | {"num_hidden_layers": layers})
    deep = _llama(config)
    state = deepen_state(model.state_dict(), from_layers=model.config.num_hidden_layers, to_layers=layers)
    # Assigned, since casting the module instead would also round its rotary frequencies.
    deep.load_state_dict({key: tensor.clone() for key, tensor in state.items()}, assign=True)
    deep.train(model.training)
    return deep


def _llama(config: LlamaConfig) -> LlamaForCausalLM:
    return LlamaForCausalLM(config)  # type: ignore[no-untyped-call,unused-ignore]


def save_checkpoint(model: LlamaForCausalLM, directory: Path) -> None:
    """Write weights in bfloat16, config and tokenizer: a folder that transformers and SGLang load as it is."""
    directory.mkdir(parents=True, exist_ok=True)
    state = {key: tensor.detach().to(torch.bfloat16) for key, tensor in model.state_dict().items()}
    _write(state, model.config, directory)


def write_served_checkpoint(small_dir: Path, out_dir: Path, layers: int = SERVED_LAYERS) -> None:
    """Write the deep image of the checkpoint in `small_dir`, tokenizer included, into `out_dir`."""
    config = LlamaConfig.from_pretrained(small_dir)
    state = load_file(small_dir / WEIGHTS_FILE)
    deep = deepen_state(state, from_layers=config.num_hidden_layers, to_layers=layers)
    out_dir.mkdir(parents=True, exist_ok=True)
    _write(deep, LlamaConfig.from_dict(config.to_dict() | {"num_hidden_layers": layers}), out_dir)


def _write(state: Mapping[str, Tensor], config: LlamaConfig, directory: Path) -> None:
    # Clones, because safetensors refuses tensors that share memory, as those of a deep image do.
    save_file({key: tensor.clone() for key, tensor in state.items()}, directory / WEIGHTS_FILE, {"format": "pt"})
    content = config.to_diff_dict() | {"architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}
    (directory / CONFIG_FILE).write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
    save_tokenizer(directory)
