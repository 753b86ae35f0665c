"""
A plug-in for SGLang in addition to the product's: the scheduler loop of GPUs on a CPU.

SGLang turns overlap off for speculation on a CPU, though everything its loop needs exists there. Here a round is
processed after the next was launched, outputs lie in memory that the next pass of any model overwrites, the host does
not know how long sequences are, and sampling takes the form with fixed shapes, as on a GPU. On a CPU a round has run
when its launch returns, so that streams cannot race; what the scheduler would wait for is checked instead (`reads`).

Entry point `sglang.srt.plugins: tlt-gpu-loop`. Written against SGLang 0.5.23.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from tlt_bench.gpu_loop.settings import LOOP_VARIABLE, ROUNDS_VARIABLE


def install() -> None:
    """Register the hooks if this engine is to run the loop of GPUs."""
    if LOOP_VARIABLE not in os.environ:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from tlt_bench.gpu_loop.buffers import forward_into_buffers
    from tlt_bench.gpu_loop.counting import as_graph, count_round
    from tlt_bench.gpu_loop.reads import publish, read, require_last_reader
    from tlt_worker.scheduler.sampling.forms import FORMS, Form

    FORMS["cpu"] = Form.FIXED
    around = [
        ("sglang.srt.arg_groups.speculative_hook._disable_overlap_schedule_for_cpu", keep_overlap),
        ("sglang.srt.model_executor.model_runner.ModelRunner.forward", forward_into_buffers),
        ("sglang.srt.model_executor.model_runner.ModelRunner.forward", publish),
        ("sglang.srt.managers.scheduler.Scheduler._apply_war_barrier", require_last_reader),
        ("tlt_worker.scheduler.blocks.context.ContextCompletion._pass", read),
        ("tlt_worker.scheduler.drafts.eager_chain.EagerChain.extend", read),
    ]
    if ROUNDS_VARIABLE in os.environ:
        around += [
            ("sglang.srt.managers.scheduler.Scheduler.run_batch", count_round),
            ("sglang.srt.speculative.eagle_worker_v2.EagleDraftWorker.draft_forward", as_graph),
            # On a GPU the two are one kernel.
            ("tlt_worker.scheduler.sampling.acceptance._rejected", as_graph),
            ("tlt_worker.scheduler.sampling.acceptance._write", as_graph),
        ]
    for target, hook in around:
        HookRegistry.register(target, hook, HookType.AROUND)
    instead = {
        "sglang.kernels.ops.speculative.gather_spec_extras.gather_spec_extras": gather,
        "sglang.srt.managers.overlap_utils.decide_needs_cpu_seq_lens": hide_lengths,
    }
    for target, hook in instead.items():
        HookRegistry.register(target, hook, HookType.REPLACE)


def keep_overlap(original: Callable[..., None], server_args: Any) -> None:
    """Wrap the function that turns overlap off."""
    del original, server_args


def hide_lengths(attn_backends: Sequence[Any]) -> bool:
    """Replace `decide_needs_cpu_seq_lens`: with FlashAttention and Triton, lengths are not copied to the host."""
    del attn_backends
    return False


def gather(indices: Tensor, topk_p: Tensor, topk_index: Tensor, tokens: Tensor, hidden: Tensor | None) -> Any:
    """Replace a Triton kernel: gather what the previous round left for each request."""
    return topk_p[indices], topk_index[indices], tokens[indices], None if hidden is None else hidden[indices]
