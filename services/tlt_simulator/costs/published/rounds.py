"""
Published durations of decoding rounds, in bfloat16 and without speculation, to which the roofline is calibrated. Pure.

Rows cover dense models and Qwen3-30B-A3B on cards that the simulator supports; none was found for the H200. If a source
has tokens per second of a single stream, the round is the inverse. Contexts are the prompt and half the response;
`ml.energy` does not state its prompt lengths: 200 tokens are assumed, which affects rows by less than 3 %.
"""

from dataclasses import dataclass
from typing import Any, Final

from tlt_worker.capacity.shape import ModelShape
from tlt_worker.commands.cards import CONFIGS, SHAPES

SIZES = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size")  # fmt: skip  # noqa: E501


def _like(name: str, sizes: tuple[int, ...], **more: Any) -> ModelShape:
    config = {**CONFIGS[name], **dict(zip(SIZES, sizes, strict=True)), **more}
    return ModelShape.from_config(config, dtype="bfloat16")


PUBLISHED_SHAPES: Final = {
    **SHAPES,
    "llama2-7b": _like("llama3-70b", (32, 4096, 32, 32, 11008, 32000)),
    "llama2-70b": _like("llama3-70b", (80, 8192, 64, 8, 28672, 32000)),
    "llama3-8b": _like("llama3-70b", (32, 4096, 32, 8, 14336, 128256)),
    "qwen2.5-72b": _like("qwen2.5-7b", (80, 8192, 64, 8, 29568, 152064)),
    # Qwen3 without the norms of queries and keys, which are a millionth of it.
    "qwen3-8b": _like("qwen2.5-7b", (36, 4096, 32, 8, 12288, 151936)),
    "qwen3-14b": _like("qwen2.5-7b", (40, 5120, 40, 8, 17408, 151936)),
    "qwen3-235b-a22b": _like(
        "qwen3-30b-a3b", (94, 4096, 64, 4, 12288, 151936), head_dim=128, moe_intermediate_size=1536
    ),
    "qwen3-32b": _like("qwen2.5-7b", (64, 5120, 64, 8, 25600, 151936)),
}
"""Shapes of `tlt engine plan`, and further ones that rows use."""

GPT_FAST: Final = "https://github.com/pytorch-labs/gpt-fast/blob/main/README.md (A100 limited to 330 W)"
QWEN: Final = "https://github.com/QwenLM/Qwen2.5/blob/main/docs/source/benchmark/speed_benchmark.rst (vLLM 0.6.3)"
SGLANG: Final = "https://docs.sglang.io/advanced_features/speculative_decoding.html (SGLang, MT-Bench)"
TENSTORRENT_72B: Final = "https://github.com/tenstorrent/tt-inference-server/issues/143"
TENSTORRENT_30B: Final = "https://github.com/tenstorrent/tt-inference-server/issues/340"
ML_ENERGY: Final = (
    "https://github.com/ml-energy/leaderboard/blob/master/public/data/tasks/lm-arena-chat.json (median_itl_ms)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRound:
    """A round measured by others."""

    card: str
    model: str
    """A key of `PUBLISHED_SHAPES`."""
    gpus: int
    batch: int
    context: int
    """Context length of each request, in tokens."""
    ms: float
    source: str

    @property
    def engine(self) -> str:
        """A key of `roofline.ENGINES`."""
        return {GPT_FAST: "gpt-fast", SGLANG: "sglang"}.get(self.source, "vllm")


def _rows(
    source: str, card: str, model: str, gpus: int, context: int, ms: dict[int, float]
) -> tuple[PublishedRound, ...]:
    """Return a row for each batch size."""
    return tuple(
        PublishedRound(card=card, model=model, gpus=gpus, batch=batch, context=context, ms=one, source=source)
        for batch, one in ms.items()
    )


PUBLISHED_ROUNDS: Final = (
    *_rows(GPT_FAST, "a100-80", "llama2-7b", 1, 100, {1: 1e3 / 104.9}),
    *_rows(GPT_FAST, "a100-80", "llama2-7b", 2, 100, {1: 1e3 / 168.84}),
    *_rows(GPT_FAST, "a100-80", "llama2-7b", 4, 100, {1: 1e3 / 254.02}),
    *_rows(GPT_FAST, "a100-80", "llama2-7b", 8, 100, {1: 1e3 / 328.43}),
    *_rows(GPT_FAST, "a100-80", "llama2-70b", 2, 100, {1: 1e3 / 21.32}),
    *_rows(GPT_FAST, "a100-80", "llama2-70b", 4, 100, {1: 1e3 / 38.01}),
    *_rows(GPT_FAST, "a100-80", "llama2-70b", 8, 100, {1: 1e3 / 62.50}),
    *_rows(QWEN, "a100-80", "qwen2.5-7b", 1, 1025, {1: 1e3 / 84.28}),
    *_rows(QWEN, "a100-80", "qwen2.5-14b", 1, 1025, {1: 1e3 / 46.30}),
    *_rows(QWEN, "a100-80", "qwen2.5-72b", 4, 1025, {1: 1e3 / 31.37}),
    *_rows(SGLANG, "h100", "llama3-8b", 1, 500, {1: 1e3 / 158.34}),
    *_rows(TENSTORRENT_72B, "h100", "qwen2.5-72b", 2, 192, {1: 30.9}),
    *_rows(TENSTORRENT_72B, "h100", "qwen2.5-72b", 2, 8256, {1: 31.3}),
    *_rows(TENSTORRENT_30B, "a100-80", "qwen3-30b-a3b", 1, 192, {1: 9.6}),
    *_rows(TENSTORRENT_30B, "a100-80", "qwen3-30b-a3b", 1, 8256, {1: 10.6}),
    *_rows(ML_ENERGY, "h100", "llama3-8b", 1, 398, {8: 7.32, 16: 7.91, 32: 8.91, 64: 11.5, 128: 16.48, 256: 26.13}),
    *_rows(ML_ENERGY, "h100", "qwen3-8b", 1, 525, {8: 8.2, 16: 8.9, 32: 10.57, 64: 13.95, 128: 20.7, 256: 31.36}),
    *_rows(ML_ENERGY, "h100", "qwen3-14b", 1, 510, {8: 12.54, 16: 13.34, 32: 15.01, 64: 18.94, 128: 26.16, 256: 38.4}),
    *_rows(ML_ENERGY, "h100", "qwen3-32b", 1, 515, {8: 25.21, 16: 26.35}),
    *_rows(ML_ENERGY, "h100", "qwen3-32b", 2, 515, {8: 15.06, 16: 16.04, 32: 17.91, 64: 22.45, 128: 29.66, 256: 44.45}),
    *_rows(ML_ENERGY, "h100", "llama3-70b", 4, 378, {8: 16.57, 16: 17.7, 32: 20.05, 64: 22.43, 128: 27.87, 256: 39.84}),
    *_rows(ML_ENERGY, "h100", "qwen3-30b-a3b", 1, 660, {8: 12.85, 16: 17.55, 32: 22.57, 64: 28.94}),
    *_rows(ML_ENERGY, "b200", "llama3-8b", 1, 398, {8: 4.57, 16: 5.08, 32: 6.35, 64: 9.0}),
    *_rows(ML_ENERGY, "b200", "qwen3-8b", 1, 525, {8: 4.97, 16: 5.78, 128: 12.08, 256: 20.05}),
    *_rows(ML_ENERGY, "b200", "qwen3-14b", 1, 505, {8: 7.16, 16: 7.84, 32: 9.42, 64: 12.73, 128: 19.07, 256: 21.17}),
    *_rows(ML_ENERGY, "b200", "qwen3-32b", 1, 515, {8: 14.13, 16: 15.11, 32: 16.81, 64: 19.58, 128: 24.72, 256: 36.02}),
    *_rows(ML_ENERGY, "b200", "llama3-70b", 2, 376, {8: 16.36, 16: 16.78, 32: 18.68, 64: 21.75, 128: 27.3, 256: 35.84}),
    *_rows(ML_ENERGY, "b200", "qwen3-30b-a3b", 1, 658, {8: 8.24, 16: 10.81, 32: 14.28, 64: 19.32}),
)
"""All that was found, but for rows beyond 256 requests, of quantised models, and (of `ml.energy`) between those sizes
or with rounds that another row of the same card contradicts: Llama 3.1 8B on a B200 from 128 requests on, which would
take longer than on an H100."""
