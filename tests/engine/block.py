"""Hand-made block drafters in the formats of DFlash and DSpark, and a reference of what they draft in plain torch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from tests.engine import models

CONTEXT = 0.02
"""Weight of what is read of the target beside the embedding of a token of the block."""
SHARPNESS = 2.0
"""Of the Markov head: above 1, so that the token before a draft counts for more than the anchor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One of the formats. The defaults are DFlash's."""

    block_size: int = 8
    """As in config.json: with DFlash the anchor counts."""
    layers: tuple[int, ...] = (1, 3, 4)
    draft_layers: int = 2
    markov: str = ""
    """Kind of DSpark's Markov head; empty: DFlash."""
    anchored: bool = True
    """Whether DSpark's anchor gives the first draft."""

    @property
    def drafts(self) -> int:
        """Draft tokens of a block."""
        return self.block_size if self.markov else self.block_size - 1

    @property
    def first(self) -> int:
        """Query that gives the first draft."""
        return 0 if self.markov and self.anchored else 1


DFLASH = Kind()
DSPARK = Kind(block_size=7, markov="vanilla")


def write_target(directory: Path, **kw: Any) -> Path:
    """Write a target whose last token has a short embedding: as a mask it hardly hides what attention found."""
    models.write_target(directory, **kw)
    tensors = load_file(directory / "model.safetensors")
    tensors["model.embed_tokens.weight"][-1] *= 0.005
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})
    return directory


def write_drafter(directory: Path, target: Path, kind: Kind, *, noise: float, gain: float = 1.0, seed: int = 3) -> Path:
    """
    Write a drafter whose first draft follows from the anchor alone, as (mostly) does the target's next token.

    Values pass the embedding of whatever is attended to, but not that of the mask; what is read of the target adds
    little. So every query finds the anchor, DSpark's anchor itself. Its Markov head adds the same prediction for the
    token before each draft. `gain` -1 drafts the tokens least likely, 0 random ones.
    """
    generator = torch.Generator().manual_seed(seed)
    sizes = json.loads((target / "config.json").read_text())
    hidden, heads, size = sizes["hidden_size"], sizes["num_attention_heads"], sizes["head_dim"]
    assert heads * size == hidden, "heads must cover the embedding exactly"
    tensors = {name: torch.randn(shape, generator=generator) * noise for name, shape in shapes(sizes, kind).items()}
    for name, tensor in tensors.items():
        if "norm" in name:
            tensor.fill_(1.0)
    tensors["hidden_norm.weight"] *= CONTEXT
    theirs = load_file(target / "model.safetensors")
    embedding, head = theirs["model.embed_tokens.weight"], theirs["lm_head.weight"]
    mask_H = functional.normalize(embedding[-1], dim=0)
    tensors["layers.0.self_attn.v_proj.weight"] += torch.eye(hidden) - torch.outer(mask_H, mask_H)
    tensors["layers.0.self_attn.o_proj.weight"] += gain * torch.eye(hidden)
    if kind.markov:
        after_VV = functional.rms_norm(embedding, (hidden,)) @ head.T
        tensors["markov_head.markov_w1.weight"] += torch.eye(len(embedding))
        tensors["markov_head.markov_w2.weight"] += SHARPNESS * gain * after_VV.T
    if kind.markov == "rnn":  # what its last third makes of the token before is that token
        rank = len(embedding)
        tensors["markov_head.joint_proj.weight"][2 * rank :, rank : 2 * rank] += torch.eye(rank)
    directory.mkdir(parents=True, exist_ok=True)
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(config_of(sizes, kind)))
    return directory


def shapes(sizes: Mapping[str, Any], kind: Kind) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a published drafter's tensors; the Markov head has a rank for each token."""
    hidden, inner, size, vocabulary = (
        sizes[name] for name in ("hidden_size", "intermediate_size", "head_dim", "vocab_size")
    )
    rows = sizes["num_attention_heads"] * size
    found = {
        "fc.weight": (hidden, len(kind.layers) * hidden), "hidden_norm.weight": (hidden,), "norm.weight": (hidden,),
    }  # fmt: skip
    for number in range(kind.draft_layers):
        of = f"layers.{number}."
        found |= {f"{of}self_attn.{name}_proj.weight": (rows, hidden) for name in "qkv"}
        found |= {f"{of}self_attn.{name}_norm.weight": (size,) for name in "qk"}
        found |= {f"{of}mlp.{name}_proj.weight": (inner, hidden) for name in ("gate", "up")}
        found |= {f"{of}{name}_layernorm.weight": (hidden,) for name in ("input", "post_attention")}
        found |= {f"{of}self_attn.o_proj.weight": (hidden, rows), f"{of}mlp.down_proj.weight": (hidden, inner)}
    if kind.markov:
        rank = vocabulary
        found |= {f"markov_head.markov_w{number}.weight": (vocabulary, rank) for number in (1, 2)}
        name, rows = {"vanilla": ("", 0), "gated": ("gate", rank), "rnn": ("joint", 3 * rank)}[kind.markov]
        if name:
            read = hidden + (rank if name == "gate" else 2 * rank)
            found |= {f"markov_head.{name}_proj.weight": (rows, read), f"markov_head.{name}_proj.bias": (rows,)}
    return found


def config_of(sizes: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """Return a config.json as in published drafters."""
    names = (
        "vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "head_dim", "max_position_embeddings",
    )  # fmt: skip
    common = {
        **{name: sizes[name] for name in names}, "num_key_value_heads": sizes["num_attention_heads"],
        "model_type": "qwen3", "num_hidden_layers": kind.draft_layers, "num_target_layers": sizes["num_hidden_layers"],
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu", "attention_bias": False,
        "tie_word_embeddings": False, "block_size": kind.block_size,
        "layer_types": ["full_attention"] * kind.draft_layers, "dtype": "float32",
    }  # fmt: skip
    mask, layers = sizes["vocab_size"] - 1, list(kind.layers)
    if not kind.markov:
        nested = {"mask_token_id": mask, "target_layer_ids": layers}
        return {**common, "architectures": ["DFlashDraftModel"], "dflash_config": nested}
    return {
        **common, "architectures": ["Qwen3DSparkModel"], "mask_token_id": mask, "target_layer_ids": layers,
        "markov_rank": sizes["vocab_size"], "markov_head_type": kind.markov, "sample_from_anchor": kind.anchored,
    }  # fmt: skip


@dataclass
class Reference:
    """A drafter in plain torch, with the target it drafts for."""

    drafter: Path
    target: Path
    kind: Kind

    def __post_init__(self) -> None:
        self.model = models.load(self.target)
        self.tensors = load_file(self.drafter / "model.safetensors")
        self.sizes = json.loads((self.drafter / "config.json").read_text())
        self.embedding = self.model.get_input_embeddings().weight.detach()
        self.head = self.model.get_output_embeddings().weight.detach()

    def states(self, ids: Sequence[int]) -> Tensor:
        """Return what the drafter reads from the target, [T, layers * H]."""
        return self.captured(ids)[:, : -self.sizes["hidden_size"]]

    @torch.no_grad()
    def captured(self, ids: Sequence[int]) -> Tensor:
        """Return what an engine captures: the same, then the last states, [T, (layers + 1) * H]."""
        seen = self.model(torch.tensor([list(ids)]), output_hidden_states=True).hidden_states
        return torch.cat([*(seen[layer + 1][0] for layer in self.kind.layers), seen[-1][0]], dim=-1)

    def rounds(self, ids: Sequence[int], prompt: int, arms: Sequence[int]) -> int:
        """Return the number of rounds of greedy decoding of `ids` with blocks of these lengths in turn; 0 is off."""
        states, have, count = self.states(ids), prompt + 1, 0
        while have < len(ids):
            verified = arms[count % len(arms)]
            drafts = self.block(states[: have - 1], ids[have - 1])[:verified] if verified else []
            right = 0
            while right < len(drafts) and have + right < len(ids) and drafts[right] == ids[have + right]:
                right += 1
            have, count = have + right + 1, count + 1
        return count

    @torch.no_grad()
    def block(self, states: Tensor, anchor: int) -> list[int]:
        """Return the drafter's most likely tokens after `anchor`, before which there are `states`."""
        hidden_NH = self._hidden(states, anchor)[self.kind.first :]
        logits_NV, drafts, before = hidden_NH @ self.head.T, list[int](), anchor
        recurrent = torch.zeros(self.sizes.get("markov_rank", 0))
        for hidden_H, logits_V in zip(hidden_NH, logits_NV, strict=True):
            if self.kind.markov:
                bias_V, recurrent = self._bias(before, hidden_H, recurrent)
                logits_V = logits_V + bias_V  # noqa: PLW2901 - the position's own
            before = int(logits_V.argmax())
            drafts.append(before)
        return drafts

    def _bias(self, before: int, hidden_H: Tensor, recurrent: Tensor) -> tuple[Tensor, Tensor]:
        of = {name.removeprefix("markov_head."): tensor for name, tensor in self.tensors.items()}
        latent = of["markov_w1.weight"][before]
        if self.kind.markov == "gated":
            read = torch.cat([hidden_H, latent])
            latent = torch.sigmoid(functional.linear(read, of["gate_proj.weight"], of["gate_proj.bias"])) * latent
        if self.kind.markov == "rnn":
            read = torch.cat([recurrent, latent, hidden_H])
            gate, made, out = functional.linear(read, of["joint_proj.weight"], of["joint_proj.bias"]).chunk(3)
            recurrent = torch.sigmoid(gate) * recurrent + (1 - torch.sigmoid(gate)) * torch.tanh(made)
            latent = torch.tanh(out)
        return functional.linear(latent, of["markov_w2.weight"]), recurrent

    def _hidden(self, states_TKH: Tensor, anchor: int) -> Tensor:
        queries = self.kind.drafts + self.kind.first
        mask = self.sizes.get("dflash_config", self.sizes)["mask_token_id"]
        ids = torch.tensor([anchor, *[mask] * (queries - 1)])
        context_TH = self._norm(functional.linear(states_TKH, self.tensors["fc.weight"]), "hidden_norm")
        hidden_QH = self.embedding[ids]
        for number in range(self.kind.draft_layers):
            hidden_QH = self._layer(hidden_QH, context_TH, f"layers.{number}.")
        return self._norm(hidden_QH, "norm")

    def _layer(self, hidden_QH: Tensor, context_TH: Tensor, of: str) -> Tensor:
        inner_QH, size = self._norm(hidden_QH, f"{of}input_layernorm"), self.sizes["head_dim"]

        def projected(of_H: Tensor, name: str) -> Tensor:
            return functional.linear(of_H, self.tensors[f"{of}self_attn.{name}_proj.weight"]).view(len(of_H), -1, size)

        start, both = len(context_TH), torch.cat([context_TH, inner_QH])
        query = self._rotated(self._norm(projected(inner_QH, "q"), f"{of}self_attn.q_norm"), start)
        keys = self._rotated(self._norm(projected(both, "k"), f"{of}self_attn.k_norm"), 0)
        seen = functional.scaled_dot_product_attention(
            query.transpose(0, 1), keys.transpose(0, 1), projected(both, "v").transpose(0, 1)
        )
        mixed = hidden_QH + functional.linear(
            seen.transpose(0, 1).reshape(len(hidden_QH), -1), self.tensors[f"{of}self_attn.o_proj.weight"]
        )
        inner = self._norm(mixed, f"{of}post_attention_layernorm")
        gate, up = (functional.linear(inner, self.tensors[f"{of}mlp.{name}_proj.weight"]) for name in ("gate", "up"))
        return mixed + functional.linear(functional.silu(gate) * up, self.tensors[f"{of}mlp.down_proj.weight"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return functional.rms_norm(x, x.shape[-1:], self.tensors[f"{name}.weight"], self.sizes["rms_norm_eps"])

    def _rotated(self, x_TND: Tensor, start: int) -> Tensor:
        half = self.sizes["head_dim"] // 2
        speed = self.sizes["rope_theta"] ** (-torch.arange(half) / half)
        angle = torch.arange(start, start + x_TND.shape[0])[:, None, None] * speed
        low, high = x_TND[..., :half], x_TND[..., half:]
        return torch.cat([low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin()], dim=-1)
