"""
Pure-torch stand-in for SGLang's compiled `sgl_kernel`, for machines without a CUDA driver.

SGLang imports this package by name on its CPU engine. It contains only what SGLang 0.5.23 calls there: cache
bookkeeping, tree building and greedy verification for speculative decoding, two attention operators and the hash of
seeded sampling. Nothing is compiled, so it runs wherever torch does; `tlt_worker.engine.device` decides when it is
added to the import path.
"""

from typing import Any, Final

import torch

from sgl_kernel.attention import decode_attention_cpu, extend_attention_cpu
from sgl_kernel.cache import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    build_draft_decode_metadata_cpu,
    copy_all_layer_kv_cache_cpu,
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
    rotate_input_ids_cpu,
)
from sgl_kernel.hashing import murmur_hash32_cpu
from sgl_kernel.tree import build_tree_kernel_efficient_cpu, verify_tree_greedy_cpu

__version__: Final = "0.0.0+torch"

TLT_STANDIN: Final = True
"""Distinguishes this package from the compiled one."""


class _Op:
    """Operator in the form that SGLang expects of `torch.ops.sgl_kernel.<name>`: callable itself and as `.default`."""

    def __init__(self, function: Any) -> None:
        self.default = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.default(*args, **kwargs)


for _function in (decode_attention_cpu, extend_attention_cpu, murmur_hash32_cpu):
    setattr(torch.ops.sgl_kernel, _function.__name__, _Op(_function))

__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "decode_attention_cpu",
    "extend_attention_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "murmur_hash32_cpu",
    "rotate_input_ids_cpu",
    "verify_tree_greedy_cpu",
]
