"""
CUDA graphs of arms, as planned. Imported inside SGLang's processes only.

Written against SGLang 0.5.23, which sizes a capture by `cuda_graph_config` (the `cuda_graph_bs` that
`build_adaptive_runtime_state` takes is not read any more). Engines are launched without decode graphs, since the shape
they are launched with is no arm's. Not run on a GPU yet.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sglang.srt.model_executor.cuda_graph_config import Backend, Phase, with_phase
from sglang.srt.model_executor.graph_shared_output import GraphSharedOutput
from sglang.srt.runtime_context import get_exec
from sglang.srt.speculative.eagle_draft_cuda_graph_runner import EAGLEDraftCudaGraphRunner
from sglang.srt.speculative.eagle_draft_extend_cuda_graph_runner import EAGLEDraftExtendCudaGraphRunner

from tlt_common.domain.strategy import Arm
from tlt_worker.graphs.runner import Stage
from tlt_worker.graphs.sharing import Sharing


@dataclass(slots=True, kw_only=True)
class Graphs:
    """Captures the graphs of one engine; without sizes (a CPU) it captures nothing."""

    sharing: Sharing

    def prepare(self, arms: Sequence[Arm], *runners: Any) -> None:
        """Give model runners the logits buffer that all graphs write, as wide as the widest needs it."""
        rows = self.sharing.logit_rows(arms)
        if not rows:
            return
        shared = GraphSharedOutput(device=runners[0].device, max_rows=rows)
        for runner in runners:
            runner.graph_shared_output = shared

    @contextmanager
    def verifying(self, arm: Arm) -> Iterator[None]:
        """Let the target capture what is due for an arm while the context lasts."""
        with _capturing(self.sharing.due(arm, Stage.VERIFY)):
            yield

    def capture_drafter(self, arm: Arm, worker: Any) -> None:
        """Capture the drafter's steps and extend for an arm, as far as due, into its draft worker."""
        if sizes := self.sharing.due(arm, Stage.DRAFT):
            with _capturing(sizes):
                worker.cuda_graph_runner = EAGLEDraftCudaGraphRunner(worker)
        if sizes := self.sharing.due(arm, Stage.EXTEND):
            with _capturing(sizes):
                worker.cuda_graph_runner_for_draft_extend = EAGLEDraftExtendCudaGraphRunner(worker)


@contextmanager
def _capturing(sizes: Sequence[int]) -> Iterator[None]:
    graph = get_exec().graph
    backend = Backend.FULL if sizes else Backend.DISABLED
    config = with_phase(
        graph.cuda_graph_config, Phase.DECODE, backend=backend, bs=list(sizes), max_bs=max(sizes, default=None)
    )
    with graph.override(cuda_graph_config=config):
        yield
