"""
Memory a round takes beside its graphs, and so at which batch sizes an arm fits.

Verification draws tokens outside any graph: float32 probabilities of every node, sorted and summed for the filters. A
round without a graph allocates logits and activations as well. The largest of these at the most tokens is what a
careless choice of an arm would run out of memory with.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tlt_common.domain.strategy import OFF, Arm
from tlt_worker.graphs.cost import FLOAT, Costs
from tlt_worker.graphs.plan import Plan
from tlt_worker.graphs.runner import Runner, Stage, runners_of

DRAW_BYTES = 5 * FLOAT
"""Per node and token of the vocabulary: probabilities, sorted ones, their sums, and where each came from (int64)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """What rounds may take on each rank."""

    costs: Costs
    kv_tokens: int
    """Tokens the key/value cache holds: no batch has more context than that."""
    free: int
    """Bytes."""

    def round(self, arm: Arm, batch: int, has_graph: Callable[[Runner, int], bool]) -> int:
        """Bytes a round of this arm takes at most, beside its graphs."""
        model = self.costs.model
        nodes = batch * arm.draft_tokens
        context = min(batch * self.costs.context_length, self.kv_tokens)
        mask = arm.draft_tokens * (context + nodes) if arm.topk > 1 else 0
        states = nodes * model.state_bytes
        proposals = batch * arm.steps * model.vocab * FLOAT if arm.sampled else 0
        drawing = nodes * model.vocab * DRAW_BYTES
        eager = [runner for runner in runners_of(arm) if not has_graph(runner, batch)]
        passes = max((self._pass(runner, batch) for runner in eager), default=0)
        return mask + states + proposals + max(drawing, passes)

    def _pass(self, runner: Runner, batch: int) -> int:
        rows = self.costs.logit_rows(runner, batch) if runner.stage is Stage.VERIFY else 0
        return self.costs.transient(runner, batch) + rows * self.costs.model.vocab * FLOAT

    def most(self, arm: Arm, plan: Plan) -> int:
        """Largest batch at which a round of this arm fits, and every smaller one does; 0 if none does."""
        if arm == OFF:
            return plan.question.most
        fitting = 0
        while fitting < plan.question.most and self.round(arm, fitting + 1, plan.has_graph) <= self.free:
            fitting += 1
        return fitting
