"""
A plug-in for SGLang beside the product's: times the stages of rounds, and writes a line for each round that decodes.

Entry point `sglang.srt.plugins: tlt-stages`. Written against SGLang 0.5.23.
"""

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from tlt_bench.stages.clock import StageClock

STAGES_VARIABLE: Final = "TLT_STAGES"
"""File that receives a line for each round; without this variable the plug-in does nothing."""

SCHEDULER = "managers.scheduler.Scheduler"
WORKER = "speculative.eagle_worker_v2"
COMMON = "speculative.eagle_worker_common"
STAGES: Final[Mapping[str, str]] = {
    f"{SCHEDULER}.get_next_batch_to_run": "next batch",
    f"{SCHEDULER}.process_batch_result": "process",
    f"{WORKER}.EagleDraftWorker.draft": "draft",
    f"{COMMON}.prepare_for_draft": "batch",
    f"{WORKER}.EagleDraftWorker.draft_forward": "steps",
    f"{COMMON}.build_eagle_verify_input": "tree",
    f"{COMMON}.run_eagle_verify": "verify",
    f"{COMMON}.eagle_prepare_for_verify": "batch",
    "speculative.eagle_utils.eagle_sample": "sample",
    "layers.logprob_processor.compute_spec_logprobs": "logprobs",
    f"{WORKER}.EagleDraftWorker._draft_extend_for_decode": "extend",
    f"{COMMON}.prepare_for_draft_extend": "batch",
    "speculative.spec_utils.sample_draft_proposal": "sample",
    "managers.tp_worker.TpModelWorker.forward_batch_generation": "target",
    "layers.sampler.Sampler.forward": "sample",
    "model_executor.model_runner.ModelRunner.forward": "runner",
    "layers.attention.intel_amx_backend.IntelAMXAttnBackend.init_forward_metadata": "metadata",
    "layers.radix_attention.RadixAttention.forward": "attention",
    "layers.logits_processor.LogitsProcessor.forward": "head",
    "models.llama.LlamaModel.forward": "layers",
    "models.llama_eagle.LlamaModel.forward": "layers",
}
"""Functions of SGLang and the stages they are."""

_clock = StageClock()


def install() -> None:
    """Register the hooks if this engine's rounds are to be timed."""
    if STAGES_VARIABLE not in os.environ:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for target, stage in STAGES.items():
        HookRegistry.register(f"sglang.srt.{target}", partial(_timed, stage), HookType.AROUND)
    HookRegistry.register(f"sglang.srt.{SCHEDULER}.run_batch", _round, HookType.AROUND)


def _timed(stage: str, original: Callable[..., Any], *args: Any, **kw: Any) -> Any:
    return _clock.run(stage, original, *args, **kw)


def _round(original: Callable[..., Any], self: Any, batch: Any, *args: Any, **kw: Any) -> Any:
    """Wrap `Scheduler.run_batch`: write what was spent since the last round was launched."""
    from tlt_worker.scheduler.launched_round import round_of

    spent = _clock.take()
    result = _clock.run("launch", original, self, batch, *args, **kw)
    line, _round_line[:] = list(_round_line), [_described(round_of(result), batch)]
    if line and line[0] is not None:
        text = json.dumps({**line[0], "stages": {"/".join(path): each for path, each in spent.items()}})
        with Path(os.environ[STAGES_VARIABLE]).open("a") as file:
            file.write(text + "\n")
    return result


_round_line: list[dict[str, Any] | None] = []
"""The round launched last; None: one that did not decode."""


def _described(launched: Any, batch: Any) -> dict[str, Any] | None:
    if launched is None or launched.choice is None:
        return None
    return {"arm": launched.choice.arm.name, "requests": [req.rid for req in batch.reqs]}
