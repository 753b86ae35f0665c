"""GPUs and models by name, for planning on machines without them. Pure."""

from typing import Any

from tlt_worker.capacity.memory.table import GIB
from tlt_worker.capacity.profile import Accelerator
from tlt_worker.capacity.rounds import READ_SHARE, Speed
from tlt_worker.capacity.shape import ModelShape

CARDS: dict[str, tuple[float, int]] = {
    "l4": (22.0, 8),
    "4090": (23.5, 8),
    "a100-40": (39.4, 8),
    "a100-80": (79.2, 8),
    "h100": (79.1, 9),
    "h200": (139.8, 9),
    "b200": (178.3, 10),
}
"""GiB that CUDA reports, and major compute capability."""

READ_SHARES = {"a100-80": 0.75, "h100": 0.93, "h200": 0.93, "b200": 0.82}
"""Share of a card's bandwidth at which weights are read, from published rounds. The H200's is the H100's: nothing was
found for it."""
RATES = {
    "l4": (300, 121),
    "4090": (1008, 165),
    "a100-40": (1555, 312),
    "a100-80": (2039, 312),
    "h100": (3350, 989),
    "h200": (4800, 989),
    "b200": (8000, 2250),
}
"""GB/s of memory, and dense bfloat16 TFLOP/s: NVIDIA's data sheets, of SXM modules where there are several."""
SPEEDS = {
    name: Speed(gb_per_s=gb_per_s, tflops=tflops, read_share=READ_SHARES.get(name, READ_SHARE))
    for name, (gb_per_s, tflops) in RATES.items()
}


def _config(architecture: str, model_type: str, sizes: tuple[int, ...], **more: Any) -> dict[str, Any]:
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
             "intermediate_size", "vocab_size")  # fmt: skip
    return {
        "architectures": [architecture],
        "model_type": model_type,
        **dict(zip(names, sizes, strict=True)),
        "max_position_embeddings": 131_072,
        "tie_word_embeddings": False,
        **more,
    }


CONFIGS: dict[str, dict[str, Any]] = {
    "qwen2.5-7b": _config("Qwen2ForCausalLM", "qwen2", (28, 3584, 28, 4, 128, 18944, 152064)),
    "mimo-7b": _config("MiMoForCausalLM", "mimo", (36, 4096, 32, 8, 128, 11008, 151680), num_nextn_predict_layers=1),
    "qwen2.5-14b": _config("Qwen2ForCausalLM", "qwen2", (48, 5120, 40, 8, 128, 13824, 152064)),
    "qwen2.5-32b": _config("Qwen2ForCausalLM", "qwen2", (64, 5120, 40, 8, 128, 27648, 152064)),
    "llama3-70b": _config("LlamaForCausalLM", "llama", (80, 8192, 64, 8, 128, 28672, 128256)),
    "qwen3-30b-a3b": _config(
        "Qwen3MoeForCausalLM",
        "qwen3_moe",
        (48, 2048, 32, 4, 128, 6144, 151936),
        num_experts=128,
        num_experts_per_tok=8,
        moe_intermediate_size=768,
    ),
    "glm-4.5-air": _config(
        "Glm4MoeForCausalLM",
        "glm4_moe",
        (46, 4096, 96, 8, 128, 10944, 151552),
        attention_bias=True,
        use_qk_norm=False,
        n_routed_experts=128,
        n_shared_experts=1,
        num_experts_per_tok=8,
        moe_intermediate_size=1408,
        first_k_dense_replace=1,
        partial_rotary_factor=0.5,
        n_group=1,
        topk_group=1,
        routed_scaling_factor=1.0,
        norm_topk_prob=True,
        num_nextn_predict_layers=1,
    ),
    "gpt-oss-20b": _config(
        "GptOssForCausalLM",
        "gpt_oss",
        (24, 2880, 64, 8, 64, 2880, 201088),
        attention_bias=True,
        num_local_experts=32,
        num_experts_per_tok=4,
    ),
}
"""config.json of public models, in bfloat16: sizes only."""

SHAPES = {name: ModelShape.from_config(config, dtype="bfloat16") for name, config in CONFIGS.items()}
SHAPE_CONTEXT = 32_768
"""Context length of a plan for a shape, unless `engine.context_length` is set."""


def card(name: str) -> tuple[int, Accelerator]:
    """Return a card's memory in bytes, and its properties for a device profile."""
    gib, generation = CARDS[name]
    return int(gib * GIB), Accelerator(kind="cuda", generation=generation)
