"""
Memory of SGLang's processes for prefill and for themselves, by SGLang 0.5.23's defaults. Pure.

SGLang prefills prompts in chunks sized by the GPU's memory, with piecewise CUDA graphs split at attention.
"""

from tlt_worker.capacity.memory.table import GIB
from tlt_worker.capacity.shape import ModelShape

CONTEXT_BYTES = GIB // 2
"""CUDA context and libraries of one process."""
NCCL_BYTES = GIB * 3 // 4
"""Buffers of NCCL and of the custom all-reduce, with several ranks."""
GRAPH_BYTES = 8 * 2**20
"""SGLang's estimate per captured chunk size."""
_CHUNKS = ((20, 2048), (60, 4096), (160, 8192))
"""(GiB below, tokens per chunk)"""
_LARGEST_CHUNK = 16_384
_SIZES = ((32, 4, 4), (256, 48, 16), (512, 288, 32), (1024, 576, 64), (4096, 1280, 256))
"""(up to, from, distance) of the captured chunk sizes; beyond, every 512 tokens."""


def chunk_tokens(gpu_bytes: int) -> int:
    """Return the size of SGLang's prefill chunks, in tokens."""
    return next((tokens for below, tokens in _CHUNKS if gpu_bytes < below * GIB), _LARGEST_CHUNK)


def prefill_bytes(shape: ModelShape, gpu_bytes: int, tensor_parallel: int) -> int:
    """Return the bytes per rank for a chunk's activations, captured states and drafter input, and for graphs."""
    tokens = chunk_tokens(gpu_bytes)
    token = shape.layer_elements(tensor_parallel) * shape.element_bytes
    token += shape.captured_bytes + shape.state_bytes
    # The drafter's graphs have one layer.
    graphs = _captured(tokens) * GRAPH_BYTES * (1 + 1 / shape.layers)
    return int(tokens * token + graphs)


def _captured(chunk: int) -> int:
    below = sum(len(range(first, min(last, chunk) + 1, step)) for last, first, step in _SIZES)
    return below + len(range(4608, chunk + 1, 512))
