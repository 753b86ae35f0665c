"""`tlt bench weights --adapter`: LoRA adapters against whole weights, and against what PEFT merges."""

import asyncio
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tlt_bench.engines.bench_engine import log
from tlt_bench.engines.prepare import SHALLOW, BenchTarget, prepared
from tlt_bench.ratios import Figures, over
from tlt_bench.result import Result
from tlt_bench.weights.engine_worker import engine_client
from tlt_bench.workload import Prompts
from tlt_common.client import Client, SamplingParams
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import ConfigError
from tlt_common.weights.adapter import Adapter
from tlt_common.weights.layout import FILE_NAME as FILE
from tlt_worker.checkpoints.merged import merged

RANK = 16
CONFIG: Mapping[str, Any] = {"peft_type": "LORA", "r": RANK, "lora_alpha": 2 * RANK, "target_modules": "all-linear"}
HIDDEN, INNER, VOCABULARY, HEADS, KV_HEADS = 3584, 18944, 152064, 28, 4
"""Of Qwen2.5-7B."""
VERSIONS = 1000
PROBLEMS = 8
GREEDY = SamplingParams(temperature=0.0, max_new_tokens=96, ignore_eos=True)


def measure(*, layers: int, repeats: int) -> Result:
    """
    Run the benchmark and return its figures. Progress goes to stderr.

    Raises:
        ConfigError: PEFT is not installed.
    """
    try:
        import peft  # noqa: F401 - found missing before minutes have passed
    except ImportError:
        raise ConfigError("--adapter needs peft: pip install peft", field="adapter") from None
    found = Figures()
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        asyncio.run(_against_whole(Path(scratch) / "large", found, layers=layers, repeats=repeats))
        asyncio.run(_against_peft(Path(scratch) / "small", found))
    found.figures["adapter_drift"] = _drift()
    found.figures["layers"] = layers
    found.notes |= {
        "adapter_bytes_vs_full": f"bytes that a trainer sends for an adapter of rank {RANK} of all matrices, in "
        "bfloat16, divided by those of whole weights of the shape of Qwen2.5-7B with this number of layers",
        "adapter_seconds_vs_full": "seconds from the call to the answer, when the worker serves the new version, "
        "divided by those for whole weights streamed just before; all share this machine",
        "adapter_logprob_error": "largest difference of log-probabilities of greedy tokens, in float32, between the "
        "demo's model with an adapter and the whole weights that PEFT merged from both",
        "adapter_logprobs_differing": "how many of them differ at all; adapter_identical: share of equal responses",
        "transformers_gap": "the same between the engine with the adapter and transformers with the merged weights; "
        "transformers_gap_base: between engine and transformers without an adapter",
        "adapter_drift": f"elements that differ from a direct merge after {VERSIONS} versions, in bfloat16",
    }
    return found.result("weights_adapter", repeats=repeats)


async def _against_whole(scratch: Path, found: Figures, *, layers: int, repeats: int) -> None:
    base = await asyncio.to_thread(_random_model, scratch / "base", layers)
    whole = await asyncio.to_thread(load_file, base / FILE)
    whole_bytes = sum(tensor.nbytes for tensor in whole.values())
    whole_s, adapter_s = list[float](), list[float]()
    async with engine_client(base, scratch / "run") as client:
        digest, version = "", 0
        for number in range(repeats + 1):
            took = list[float]()
            for weights in (whole, _random_adapter(whole, seed=number)):
                version += 1
                began_s = time.monotonic()
                if weights is whole:
                    digest = (await client.publish_weights(version, weights)).digest
                else:
                    await client.publish_adapter(version, (CONFIG, weights), base=digest)
                    adapter_bytes = sum(tensor.nbytes for tensor in weights.values())
                took.append(time.monotonic() - began_s)
            log(f"whole weights: {took[0]:.1f} s; adapter: {took[1]:.1f} s")
            if number:  # the first round opens connections and fills caches
                whole_s.append(took[0])
                adapter_s.append(took[1])
    found.add("adapter_seconds_vs_full", over(adapter_s, whole_s))
    found.add("adapter_seconds", adapter_s)
    found.add("full_seconds", whole_s)
    found.figures |= {"adapter_bytes_vs_full": adapter_bytes / whole_bytes, "full_gigabytes": whole_bytes / 1e9}


async def _against_peft(scratch: Path, found: Figures) -> None:
    await asyncio.to_thread(scratch.mkdir)
    ready = await prepared(BenchTarget(model=SHALLOW), scratch)
    tuned, merged_directory = await asyncio.to_thread(_tuned, ready.model, scratch / "merged")
    prompts = ready.task.hard(PROBLEMS, seed=5)
    async with engine_client(ready.model, scratch / "run", dtype="float32") as client:
        base = await _responses(client, prompts, 0)
        await client.publish_weights(1, merged_directory)
        whole = await _responses(client, prompts, 1)
        await client.publish_weights(2, ready.model)
        await client.publish_adapter(3, tuned, base=ready.model)
        adapted = await _responses(client, prompts, 3)
    pairs = list(zip(adapted, whole, strict=True))
    found.figures |= {
        "adapter_logprob_error": max(
            abs(a - b) for one, other in pairs for a, b in zip(one.logprobs, other.logprobs, strict=True)
        ),
        "adapter_logprobs_differing": sum(
            a != b for one, other in pairs for a, b in zip(one.logprobs, other.logprobs, strict=True)
        ),
        "adapter_identical": sum(one.token_ids == other.token_ids for one, other in pairs) / len(pairs),
        "transformers_gap": await asyncio.to_thread(_transformers_gap, merged_directory, prompts, adapted),
        "transformers_gap_base": await asyncio.to_thread(_transformers_gap, ready.model, prompts, base),
    }


async def _responses(client: Client, prompts: Prompts, version: int) -> list[TokenChunk]:
    responses = [response for (response,) in await client.batch(prompts, 1, GREEDY)]
    if (served := {found for response in responses for found in response.policy_versions}) != {version}:
        raise RuntimeError(f"responses are of the versions {served}, not of {version}")
    return responses


def _random_model(directory: Path, layers: int) -> Path:
    """Write random weights of the shape of Qwen2.5-7B."""
    from transformers import Qwen2Config

    directory.mkdir(parents=True)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        architectures=["Qwen2ForCausalLM"],
        dtype="bfloat16",
    )
    config.save_pretrained(directory)
    torch.manual_seed(0)
    save_file({name: _random(shape) for name, shape in _shapes(layers).items()}, directory / FILE)
    return directory


def _shapes(layers: int) -> dict[str, tuple[int, ...]]:
    size = HIDDEN // HEADS * KV_HEADS
    matrices = {"q_proj": (HIDDEN, HIDDEN), "k_proj": (size, HIDDEN), "v_proj": (size, HIDDEN)}
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN)}
    for layer in (f"model.layers.{number}" for number in range(layers)):
        for name, shape in matrices.items():
            found |= {f"{layer}.self_attn.{name}.weight": shape, f"{layer}.self_attn.{name}.bias": shape[:1]}
        found |= {f"{layer}.self_attn.o_proj.weight": (HIDDEN, HIDDEN)}
        found |= {f"{layer}.mlp.{name}.weight": (INNER, HIDDEN) for name in ("gate_proj", "up_proj")}
        found |= {f"{layer}.mlp.down_proj.weight": (HIDDEN, INNER)}
        found |= {f"{layer}.{name}.weight": (HIDDEN,) for name in ("input_layernorm", "post_attention_layernorm")}
    return found | {"model.norm.weight": (HIDDEN,), "lm_head.weight": (VOCABULARY, HIDDEN)}


def _random(shape: tuple[int, ...]) -> Tensor:
    return (
        torch.ones(shape, dtype=torch.bfloat16) if len(shape) == 1 else torch.empty(shape).normal_(std=0.02).bfloat16()
    )


def _random_adapter(whole: Mapping[str, Tensor], *, seed: int) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    found: dict[str, Tensor] = {}
    for name, tensor in whole.items():
        if name.endswith("_proj.weight"):
            module = f"base_model.model.{name.removesuffix('.weight')}"
            found[f"{module}.lora_A.weight"] = _random((RANK, tensor.shape[1]))
            found[f"{module}.lora_B.weight"] = _random((tensor.shape[0], RANK))
    return found


def _tuned(base: Path, directory: Path) -> tuple[Any, Path]:
    """Return a PEFT model that is not its base, and the directory of what PEFT merges."""
    from copy import deepcopy

    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    tuned: Any = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=RANK, target_modules="all-linear"))
    torch.manual_seed(1)
    for parameter in tuned.parameters():
        if parameter.requires_grad:
            parameter.data.normal_(std=0.02)
    deepcopy(tuned).merge_and_unload().save_pretrained(directory)
    return tuned, directory


def _transformers_gap(directory: Path, prompts: Prompts, responses: list[TokenChunk]) -> float:
    """Return the largest difference of log-probabilities between responses and transformers."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    gap = 0.0
    for prompt, response in zip(prompts, responses, strict=True):
        tokens = torch.tensor([[*prompt, *response.token_ids]])
        with torch.no_grad():
            logprobs = model(tokens).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        own = logprobs.gather(1, tokens[0, len(prompt) :, None])[:, 0]
        gap = max(gap, float((own - torch.tensor(response.logprobs)).abs().max()))
    return gap


def _drift() -> float:
    """Merge many versions in turn; return how many elements of the last differ from a direct merge."""
    with tempfile.TemporaryDirectory() as scratch:
        directory, name = Path(scratch), "model.layers.0.self_attn.q_proj.weight"
        torch.manual_seed(0)
        base = _random((256, 256))
        served = base.clone()
        (directory / "adapter_config.json").write_text(json.dumps(dict(CONFIG)))
        for version in range(VERSIONS):
            sent = _random_adapter({name: base}, seed=version)
            save_file(sent, directory / "adapter_model.safetensors")
            adapter = Adapter.read(directory)
            changes = adapter.changes({name: tuple(base.shape)})
            served.copy_(dict(merged([(name, base)], adapter, changes))[name])
        a, b = (tensor.float() for tensor in sent.values())
        return float((served != (base.float() + b @ a * 2).bfloat16()).sum())
