"""
Runs rounds without drafts as plain decoding. Imported inside SGLang's processes only.

SGLang runs such a round of an EAGLE engine as the verification of a one-node tree. That takes several times as many
kernels, whose launches dominate a round of one request. Here the target decodes, with the CUDA graphs of plain
decoding, SGLang's plain sampler draws the token, with all its settings, and the result is converted to that of a
verification. Written against SGLang 0.5.23: `speculative/eagle_worker_common.py`.
"""

from collections.abc import Callable
from typing import Any

import torch
from sglang.srt.distributed.parallel_state import get_tp_group
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode
from sglang.srt.speculative.eagle_info import EagleDraftInput
from torch import Tensor


def decode(target_worker: Any, batch: Any, on_publish: Callable[[Tensor], object] | None) -> Any:
    """Decode one token per request; return a verification that accepted no drafts. Restores the batch's lengths."""
    before_B, before_cpu_B = batch.seq_lens, batch.seq_lens_cpu
    batch.input_ids = batch.spec_info.bonus_tokens.to(torch.int64)
    batch.out_cache_loc = batch.req_to_token_pool.req_to_token[batch.req_pool_indices, before_B].to(torch.int64)
    batch.seq_lens, batch.seq_lens_sum, batch.spec_info = before_B + 1, None, None
    batch.seq_lens_cpu = None if before_cpu_B is None else before_cpu_B + 1
    result = target_worker.forward_batch_generation(batch, capture_hidden_mode=CaptureHiddenMode.FULL)
    tokens_B = result.next_token_ids
    group = get_tp_group()
    if group.world_size > 1:  # as after verification: ranks must not diverge by rounding
        group.broadcast(tokens_B, src=0)
    if batch.return_logprob:
        result.logits_output.next_token_logprobs = result.logits_output.next_token_logprobs.view(-1, 1)
    # In the host's memory, where they are read: nothing needs to be launched or copied for them.
    result.accept_lens = torch.ones(len(batch.reqs), dtype=torch.int32)
    result.new_seq_lens, result.speculative_num_draft_tokens = batch.seq_lens, 1
    result.next_draft_input = EagleDraftInput(bonus_tokens=tokens_B)
    batch.seq_lens, batch.seq_lens_cpu, batch.seq_lens_sum = before_B, before_cpu_B, None
    if on_publish is not None:
        on_publish(result.new_seq_lens)
    return result
