"""GPUs and models by name, for plans on machines without them. Pure."""

from tlt_worker.capacity.memory.table import GIB
from tlt_worker.capacity.profile import Accelerator
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

SHAPES: dict[str, ModelShape] = {
    "qwen2.5-7b": ModelShape(
        layers=28, hidden=3584, heads=28, kv_heads=4, head_dim=128, intermediate=18944, vocab=152064, is_qwen=True
    ),
    "qwen2.5-14b": ModelShape(
        layers=48, hidden=5120, heads=40, kv_heads=8, head_dim=128, intermediate=13824, vocab=152064, is_qwen=True
    ),
    "qwen2.5-32b": ModelShape(
        layers=64, hidden=5120, heads=40, kv_heads=8, head_dim=128, intermediate=27648, vocab=152064, is_qwen=True
    ),
    "llama3-70b": ModelShape(
        layers=80, hidden=8192, heads=64, kv_heads=8, head_dim=128, intermediate=28672, vocab=128256
    ),
}
"""Qwen2.5 and Llama 3, in bfloat16."""
SHAPE_CONTEXT = 32_768
"""Context length of a plan for a shape, unless `engine.context_length` is set."""


def card(name: str) -> tuple[int, Accelerator]:
    """Return the bytes of a card, and what a device profile depends on."""
    gib, generation = CARDS[name]
    return int(gib * GIB), Accelerator(kind="cuda", generation=generation)
