"""Drafters as others publish them, loaded at start and swapped in: the same weights in each layout."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.engine import eagle3, models
from tests.engine.scenes.engine import answer, prompt, running
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.response import TokenChunk
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.reading import format_of, standard_format
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.engine_config import EngineConfig

VOCABULARY, LAYERS = 24, (1, 3, 5)
KNOWN = tuple(range(2, 22))
NAMES = ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
         "rms_norm_eps", "max_position_embeddings", "hidden_act")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicResult:
    """Greedy answers with chains of 3."""

    answers: dict[str, TokenChunk]
    """By layout; the first was given at start, the others were swapped in."""
    expected: list[int]
    continued: dict[str, bool]
    """Whether the format of a layout is that of the trainer's own drafters, which continue it."""


async def eagle(work: Path) -> PublicResult:
    """EAGLE in the suite's layout, its authors' and that of speculators."""
    target = models.write_target(work / "target", vocabulary=VOCABULARY, layers=8, weight=0.09)
    ours = models.write_drafter(work / "ours", target, noise=0.02)
    tensors = load_file(ours / "model.safetensors")
    config = read_config(target)
    whole = {**config, "architectures": ["LlamaForCausalLM"], "rope_theta": 10_000.0, "torch_dtype": "float16"}
    del whole["rope_parameters"], whole["dtype"]
    embedding = load_file(target / "model.safetensors")["model.embed_tokens.weight"]
    authors = _written(work / "authors", whole, {**tensors, "embed_tokens.weight": embedding}, pickled=True)
    speculators = _written(
        work / "speculators",
        {
            "architectures": ["EagleSpeculator"], "speculators_model_type": "eagle", "layernorms": False,
            "fusion_bias": False, "speculators_config": {"algorithm": "eagle"},
            "transformer_layer_config": _layer(config),
        },
        {_renamed(name, {"fc.": "fusion_fc.", "layers.0.": "transformer."}): each for name, each in tensors.items()},
    )  # fmt: skip
    return await _played(target, {"authors": authors, "ours": ours, "speculators": speculators})


async def eagle_3(work: Path) -> PublicResult:
    """EAGLE-3 as SpecForge writes it, and as speculators does."""
    target = models.write_target(work / "target", vocabulary=VOCABULARY, hidden=48, layers=8, weight=0.09, kv_heads=4)
    config = read_config(target)
    form = standard_format(DrafterArchitecture.EAGLE3, config, draft_vocabulary=len(KNOWN), layers=LAYERS)
    authors = eagle3.write_drafter(work / "authors", target, form, KNOWN, noise=0.02)
    tensors = load_file(authors / "model.safetensors")
    specforge = _written(work / "specforge", _specforge(config, form), tensors)
    speculators = _written(
        work / "speculators",
        {
            "architectures": ["Eagle3DraftModel"], "speculators_model_type": "eagle3", "draft_vocab_size": len(KNOWN),
            "norm_before_residual": False, "target_hidden_size": None, "tie_word_embeddings": False,
            "eagle_aux_hidden_state_layer_ids": [layer + 1 for layer in LAYERS], "speculators_version": "0.5.0",
            "speculators_config": {"algorithm": "eagle3", "verifier": {"architectures": ["LlamaForCausalLM"]}},
            "transformer_layer_config": _layer(config),
        },
        {
            **{_renamed(name, {"midlayer.": "layers.0."}): each for name, each in tensors.items()},
            "embed_tokens.weight": load_file(target / "model.safetensors")["model.embed_tokens.weight"],
        },
    )  # fmt: skip
    return await _played(target, {"specforge": specforge, "authors": authors, "speculators": speculators})


def _layer(config: dict[str, Any]) -> dict[str, Any]:
    """Return a layer's configuration as transformers 4 wrote it, which speculators quotes."""
    theta = config["rope_parameters"]["rope_theta"]
    return {name: config[name] for name in NAMES} | {
        "model_type": "llama", "num_hidden_layers": 1, "rope_theta": theta, "rope_scaling": None,
        "attention_bias": False, "mlp_bias": False,
    }  # fmt: skip


def _specforge(config: dict[str, Any], form: DrafterFormat) -> dict[str, Any]:
    return _layer(config) | {
        "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": form.draft_vocab_size, "dtype": "bfloat16",
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(LAYERS), "use_aux_hidden_state": True},
        "tie_word_embeddings": False, "pretraining_tp": 1, "transformers_version": "4.57.1", "use_cache": True,
    }  # fmt: skip


def _renamed(name: str, prefixes: dict[str, str]) -> str:
    for old, new in prefixes.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def _written(directory: Path, config: dict[str, Any], tensors: dict[str, Tensor], *, pickled: bool = False) -> Path:
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(config))
    if pickled:
        torch.save(tensors, directory / "pytorch_model.bin")
    else:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, directory / "model.safetensors")
    return directory


async def _played(target: Path, layouts: dict[str, Path]) -> PublicResult:
    first, *others = layouts
    config = EngineConfig(
        drafter=layouts[first], dtype="float32", max_running=4, context_length=256, arms=("off", "chain-3")
    )
    asked = prompt("ask", temperature=0.0, max_new_tokens=80)
    model_config, answers = read_config(target), {}
    async with running(target, config) as engine:
        engine.force_arms("chain-3")
        answers[first] = await answer(engine, asked)
        for version, name in enumerate(others, start=2):
            await engine.load_drafter(layouts[name], DrafterVersion(version))
            answers[name] = await answer(engine, asked)
        engine.force_arms("off")
        plain = await answer(engine, asked)
    forms = {name: format_of(read_config(path), model_config) for name, path in layouts.items()}
    return PublicResult(
        answers=answers,
        expected=list(plain.token_ids),
        continued={name: form.tensor_shapes() == forms[first].tensor_shapes() for name, form in forms.items()},
    )
