"""
Captures the planned CUDA graphs of arms. Imported inside SGLang's processes only.

Written against SGLang 0.5.23, which takes capture sizes from `cuda_graph_config` (the `cuda_graph_bs` argument of
`build_adaptive_runtime_state` is no longer read). Engines are launched without decode graphs, since their launch shape
is not an arm's. Not run on a GPU yet.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sglang.srt.model_executor.cuda_graph_config import Backend, Phase, with_phase
from sglang.srt.model_executor.graph_shared_output import GraphSharedOutput
from sglang.srt.model_executor.runner import DecodeCudaGraphRunner
from sglang.srt.runtime_context import get_exec
from sglang.srt.speculative.eagle_draft_cuda_graph_runner import EAGLEDraftCudaGraphRunner
from sglang.srt.speculative.eagle_draft_extend_cuda_graph_runner import EAGLEDraftExtendCudaGraphRunner
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from torch import Tensor

from tlt_common.domain.arm import OFF, Arm
from tlt_common.start_phase import enter
from tlt_worker.capacity.graphs.runner import Stage
from tlt_worker.capacity.graphs.sharing import GraphSharing
from tlt_worker.scheduler.sampling.draw import UNSEEDED


@dataclass(slots=True, kw_only=True)
class Graphs:
    """Captures the graphs of one engine; captures nothing without sizes (CPU)."""

    sharing: GraphSharing
    phase_file: Path | None = None
    """See `LinkSettings.phase_file`."""

    def prepare(self, *runners: Any) -> None:
        """Give model runners the logits buffer shared by all graphs, sized for the widest."""
        rows = self.sharing.logit_rows()
        if not rows:
            return
        enter("capturing CUDA graphs", self.phase_file)
        shared = GraphSharedOutput(device=runners[0].device, max_rows=rows)
        for runner in runners:
            runner.graph_shared_output = shared

    @contextmanager
    def verifying(self, arm: Arm) -> Iterator[None]:
        """Make the target capture an arm's due verification graphs for the duration of the context."""
        with _capturing(() if arm == OFF else self.sharing.due(arm, Stage.VERIFY)):
            yield

    def capture_decoding(self, runner: Any, attention: Any) -> Any:
        """Capture the graphs of rounds without drafts; return SGLang's runner of them, or None without graphs."""
        sizes = self.sharing.due(OFF, Stage.VERIFY)
        if not sizes:
            return None
        with _capturing(sizes), _without_speculation(runner):
            return DecodeCudaGraphRunner(runner, attn_backend=attention)

    def capture_drafter(self, arm: Arm, worker: Any) -> None:
        """Capture an arm's due graphs of the drafter's steps and extend into its draft worker."""
        if sizes := self.sharing.due(arm, Stage.DRAFT):
            with _capturing(sizes):
                worker.cuda_graph_runner = _block(worker) if arm.is_block else SeededDraftGraphs(worker)
        if sizes := self.sharing.due(arm, Stage.EXTEND):
            with _capturing(sizes):
                worker.cuda_graph_runner_for_draft_extend = EAGLEDraftExtendCudaGraphRunner(worker)


def _block(worker: Any) -> Any:
    """Return SGLang's runner of the graphs of a block drafter's pass, as its DFlash worker has it."""
    return DecodeCudaGraphRunner(
        worker.draft_runner, attn_backend=worker.draft_attn_backend, speculative_num_draft_tokens=worker.model.queries
    )


class SeededDraftGraphs(EAGLEDraftCudaGraphRunner):  # type: ignore[misc] # SGLang is untyped
    """
    Graphs of a chain's steps in which each request draws its drafts with its seed, or at random.

    SGLang's graphs read seeds in its deterministic mode only, in which every request has one; random drafts match fewer
    of the tokens that a seed draws.
    """

    def capture(self) -> None:
        """Capture graphs that read a seed per request."""
        self.buffers.sampling_seed = torch.full((self.max_bs,), UNSEEDED, dtype=torch.int64, device=self.device)
        super().capture()

    def execute(self, forward_batch: Any) -> Any:
        """Replay a batch's graph with its seeds."""
        info = forward_batch.sampling_info
        if info is None:  # an idle rank
            return super().execute(forward_batch)
        given: Tensor | None = info.sampling_seed
        if given is None:
            info.sampling_seed = self.buffers.sampling_seed.new_full((forward_batch.batch_size,), UNSEEDED)
        try:
            return super().execute(forward_batch)
        finally:
            info.sampling_seed = given


@contextmanager
def _without_speculation(runner: Any) -> Iterator[None]:
    """Make a runner's graphs decode one token per request and return its state, although the engine speculates."""
    algorithm, runner.spec_algorithm = runner.spec_algorithm, SpeculativeAlgorithm.NONE
    try:
        with get_exec().features.override(enable_return_hidden_states=True):
            yield
    finally:
        runner.spec_algorithm = algorithm


@contextmanager
def _capturing(sizes: Sequence[int]) -> Iterator[None]:
    graph = get_exec().graph
    backend = Backend.FULL if sizes else Backend.DISABLED
    config = with_phase(
        graph.cuda_graph_config, Phase.DECODE, backend=backend, bs=list(sizes), max_bs=max(sizes, default=None)
    )
    with graph.override(cuda_graph_config=config):
        yield
