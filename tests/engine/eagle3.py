"""Hand-made EAGLE-3 drafters, and a reference of what they draft in plain torch."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from tests.engine import models
from tlt_common.drafter.format import DrafterFormat

SHARPNESS = 2.0
"""Attention sharpness of a drafter made here: high enough that a position attends to tokens equal to its own."""


def write_drafter(
    directory: Path, target: Path, form: DrafterFormat, tokens: Sequence[int], *, noise: float, seed: int = 3
) -> Path:
    """
    Write a drafter that predicts from the last token alone, as do (mostly) the targets of `models.write_target`.

    Its attention finds the token's own embedding and passes it through; what it reads from the target's layers, and its
    layer, add noise. Its head covers `tokens`. Written in the format of EAGLE-3's authors.
    """
    torch.manual_seed(seed)
    tensors = {name: torch.randn(shape) * noise for name, shape in form.tensor_shapes().items()}
    hidden = form.hidden_size
    assert form.heads * form.head_dim == form.kv_heads * form.head_dim == hidden, (
        "heads must cover the embedding exactly"
    )
    for name, scale in (("q", SHARPNESS), ("k", SHARPNESS), ("v", 1.0)):
        tensors[f"layers.0.self_attn.{name}_proj.weight"][:, :hidden] += torch.eye(hidden) * scale
    tensors["layers.0.self_attn.o_proj.weight"] += torch.eye(hidden)
    for name, tensor in tensors.items():
        if "norm" in name:
            tensor.fill_(1.0)
    known = torch.tensor(tokens)
    tensors["lm_head.weight"] = load_file(target / "model.safetensors")["lm_head.weight"][known].clone()
    tensors["d2t"] = known - torch.arange(len(known))
    tensors["t2d"] = torch.isin(torch.arange(form.vocab_size), known)
    directory.mkdir(parents=True, exist_ok=True)
    named = {name.replace("layers.0.", "midlayer."): tensor for name, tensor in tensors.items()}
    save_file(named, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(config_of(form, len(tokens))))
    return directory


def config_of(form: DrafterFormat, known: int) -> dict[str, Any]:
    """Return a config.json as in published drafters."""
    sizes, own = asdict(form), form.own_config()
    variant: dict[str, Any] = {key: own[key] for key in ("fc_norm", "norm_output") if key in own}
    reads = {key: own["eagle_config"][key] for key in ("norm_before_fc",) if key in own["eagle_config"]}
    return {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": form.layer_count,
        "vocab_size": sizes["vocab_size"], "draft_vocab_size": known, "hidden_size": sizes["hidden_size"],
        "intermediate_size": sizes["intermediate_size"], "num_attention_heads": sizes["heads"],
        "num_key_value_heads": sizes["kv_heads"], "head_dim": sizes["head_dim"], "rms_norm_eps": sizes["norm_eps"],
        "rope_theta": sizes["rope"]["rope_theta"], "max_position_embeddings": 64,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(sizes["layers"]), **reads}, **variant,
    }  # fmt: skip


@dataclass
class Reference:
    """A drafter in plain torch, with the target it drafts for."""

    drafter: Path
    target: Path
    form: DrafterFormat

    def __post_init__(self) -> None:
        self.model = models.load(self.target)
        files = load_file(self.drafter / "model.safetensors")
        self.tensors = {name.replace("midlayer.", "layers.0."): tensor for name, tensor in files.items()}
        self.embedding = self.model.get_input_embeddings().weight.detach()

    @torch.no_grad()
    def states(self, ids: Sequence[int]) -> Tensor:
        """Return what the drafter reads from the target, [T, layers * H]."""
        return self.captured(ids)[:, : -self.form.hidden_size]

    @torch.no_grad()
    def captured(self, ids: Sequence[int]) -> Tensor:
        """Return what an engine captures: the same, then the last states, [T, (layers + 1) * H]."""
        seen = self.model(torch.tensor([list(ids)]), output_hidden_states=True).hidden_states
        return torch.cat([*(seen[layer + 1][0] for layer in self.form.layers), seen[-1][0]], dim=-1)

    def rounds(self, ids: Sequence[int], prompt: int, arms: Sequence[int]) -> int:
        """Return the number of rounds of greedy decoding of `ids` with chains of these lengths in turn; 0 is off."""
        states, have, count = self.states(ids), prompt + 1, 0
        while have < len(ids):
            steps = arms[count % len(arms)]
            drafts = self.chain(states[: have - 1], list(ids[:have]), steps) if steps else []
            right = 0
            while right < len(drafts) and have + right < len(ids) and drafts[right] == ids[have + right]:
                right += 1
            have, count = have + right + 1, count + 1
        return count

    @torch.no_grad()
    def chain(self, states: Tensor, ids: list[int], steps: int) -> list[int]:
        """Return the drafter's most likely tokens after `ids`, all but the last of which have states."""
        hidden, tokens, drafts = functional.linear(states, self.tensors["fc.weight"]), ids[1:], list[int]()
        for _ in range(steps):
            out = self._layer(hidden, torch.tensor(tokens))
            logits = functional.linear(self._norm(out[-1:], "norm"), self.tensors["lm_head.weight"])
            best = int(logits.argmax())
            drafts.append(best + int(self.tensors["d2t"][best]))
            hidden, tokens = torch.cat([hidden, out[-1:]]), [*tokens, drafts[-1]]
        return drafts

    def _layer(self, hidden_TH: Tensor, tokens_T: Tensor) -> Tensor:
        form, count = self.form, len(tokens_T)
        both = torch.cat(
            [
                self._norm(self.embedding[tokens_T], "layers.0.input_layernorm"),
                self._norm(hidden_TH, "layers.0.hidden_norm"),
            ],
            dim=-1,
        )
        q, k, v = (
            functional.linear(both, self.tensors[f"layers.0.self_attn.{name}_proj.weight"]).view(
                count, -1, form.head_dim
            )
            for name in "qkv"
        )
        q, k = self._rotated(q), self._rotated(k)
        seen = functional.scaled_dot_product_attention(
            q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1), is_causal=True
        )
        mixed = hidden_TH + functional.linear(
            seen.transpose(0, 1).reshape(count, -1), self.tensors["layers.0.self_attn.o_proj.weight"]
        )
        inner = self._norm(mixed, "layers.0.post_attention_layernorm")
        gate, up = (
            functional.linear(inner, self.tensors[f"layers.0.mlp.{name}_proj.weight"]) for name in ("gate", "up")
        )
        return mixed + functional.linear(functional.silu(gate) * up, self.tensors["layers.0.mlp.down_proj.weight"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return functional.rms_norm(x, x.shape[-1:], self.tensors[f"{name}.weight"], self.form.norm_eps)

    def _rotated(self, x_TND: Tensor) -> Tensor:
        half = self.form.head_dim // 2
        speed = self.form.rope["rope_theta"] ** (-torch.arange(half) / half)
        angle = torch.arange(x_TND.shape[0])[:, None, None] * speed
        low, high = x_TND[..., :half], x_TND[..., half:]
        return torch.cat([low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin()], dim=-1)
