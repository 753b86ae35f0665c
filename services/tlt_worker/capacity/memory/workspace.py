"""
Memory a round needs outside its graphs, and thus the batch sizes at which an arm fits.

Verification draws tokens outside any graph: float32 probabilities of every node, sorted and summed for the filters. A
round without a graph also allocates logits and activations. An arm chosen where the larger of the two does not fit
would run out of memory.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tlt_common.domain.arm import OFF, Arm
from tlt_worker.capacity.graphs.cost import FLOAT, Costs
from tlt_worker.capacity.graphs.plan import Plan
from tlt_worker.capacity.graphs.runner import Runner, Stage, runners_of

DRAW_BYTES = 5 * FLOAT
"""Bytes per node and token of the vocabulary: probabilities, sorted ones, their sums, and their indices (int64)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Memory available to rounds on each rank."""

    costs: Costs
    kv_tokens: int
    """KV cache size in tokens, which bounds the total context of a batch."""
    free: int
    """Bytes available."""

    def round(self, arm: Arm, batch: int, has_graph: Callable[[Runner, int], bool]) -> int:
        """Return the maximum bytes a round of this arm needs outside its graphs."""
        model = self.costs.model
        nodes = batch * arm.draft_tokens
        context = min(batch * self.costs.context_length, self.kv_tokens)
        mask = arm.draft_tokens * (context + nodes) if arm.topk > 1 else 0
        states = nodes * model.captured_bytes
        proposals = batch * arm.steps * model.vocab * FLOAT if arm.sampled else 0
        drawing = nodes * model.vocab * DRAW_BYTES
        eager = [runner for runner in runners_of(arm) if not has_graph(runner, batch)]
        passes = max((self._pass(runner, batch) for runner in eager), default=0)
        return mask + states + proposals + max(drawing, passes)

    def _pass(self, runner: Runner, batch: int) -> int:
        rows = self.costs.logit_rows(runner, batch) if runner.stage is Stage.VERIFY else 0
        return self.costs.transient(runner, batch) + rows * self.costs.model.vocab * FLOAT

    def max_batch(self, arm: Arm, plan: Plan) -> int:
        """Return the largest batch size at which a round of this arm fits, as at every smaller one; 0 if none fits."""
        if arm == OFF:
            return plan.question.max_batch
        fitting = 0
        while fitting < plan.question.max_batch and self.round(arm, fitting + 1, plan.has_graph) <= self.free:
            fitting += 1
        return fitting
