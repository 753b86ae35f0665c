"""
Memory of captured graphs, per rank.

The accounting follows SGLang 0.5.23: static inputs and outputs of a runner are sized by its largest batch, attention
keeps a table of KV indices per captured pass, outputs of every graph stay allocated, and temporaries inside graphs
share one pool, of which only the largest use counts. `GRAPH_LAYER_BYTES` is the only calibrated number. These are
estimates: none has been measured on a GPU yet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tlt_worker.capacity.graphs.attention import AttentionCosts, OneTable, pass_of
from tlt_worker.capacity.graphs.runner import Runner, Stage
from tlt_worker.capacity.shape import ModelShape

GRAPH_LAYER_BYTES = 700_000
"""Memory of CUDA and NCCL per captured layer: a dozen kernels and two all-reduces. Fitted: for the set-up that
`test_table5` assumes, 650,000 to 750,000 match the three figures of the TLT paper's Table 5 within a tenth."""

FLOAT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Memory costs of one model on one engine."""

    model: ModelShape
    context_length: int
    tensor_parallel: int = 1
    attention: AttentionCosts | None = None
    """Costs of the attention backend. None counts one table of KV indices per captured pass."""
    shared_logits: bool = True
    """Whether all runners share one logits buffer, as in SGLang 0.5.23. Earlier versions have one per runner."""

    def total(self, captures: Mapping[Runner, Sequence[int]]) -> int:
        """Return the bytes of these runners at these batch sizes, captured into one pool."""
        used = {runner: sizes for runner, sizes in captures.items() if sizes}
        own = sum(self.runner(runner, sizes) for runner, sizes in used.items())
        return own + self.shared({runner: max(sizes) for runner, sizes in used.items()})

    def shared(self, tops: Mapping[Runner, int]) -> int:
        """
        Return the bytes that all runners share: the pool, and the logits buffer if it is shared. Both are sized by the
        largest batch of each runner.
        """
        pool = max((self.transient(runner, batch) for runner, batch in tops.items()), default=0)
        if not self.shared_logits:
            return pool
        rows = max((self.logit_rows(runner, batch) for runner, batch in tops.items()), default=0)
        return pool + rows * self.model.vocab * FLOAT

    def runner(self, runner: Runner, sizes: Sequence[int]) -> int:
        """Return the bytes of this runner alone. `sizes` must not be empty."""
        return self.static(runner, max(sizes)) + sum(self.graph(runner, batch) for batch in sizes)

    def static(self, runner: Runner, batch: int) -> int:
        """Return the bytes of a runner's inputs, outputs and attention tables, sized by its largest batch."""
        model = self.model
        size = self._attention.tables(pass_of(runner, model.drafter.queries), batch)
        if runner.stage is Stage.DRAFT:
            size += batch * model.vocab * FLOAT if runner.sampled else 0
        elif runner.stage is Stage.EXTEND:
            size += batch * runner.draft_tokens * model.state_bytes
        if not self.shared_logits:
            size += self.logit_rows(runner, batch) * model.vocab * FLOAT
        return size

    def graph(self, runner: Runner, batch: int) -> int:
        """Return the bytes of one additional graph: CUDA's own, attention's, and outputs that stay allocated."""
        return self._captured(runner, batch) + self._attention.graph(pass_of(runner, self.model.drafter.queries))

    @property
    def _attention(self) -> AttentionCosts:
        return self.attention or OneTable(context_length=self.context_length)

    def _captured(self, runner: Runner, batch: int) -> int:
        model = self.model
        state = model.hidden * model.element_bytes
        if runner.stage is Stage.VERIFY:
            return GRAPH_LAYER_BYTES * model.layers + batch * runner.draft_tokens * model.captured_bytes
        if runner.stage is Stage.EXTEND:
            return GRAPH_LAYER_BYTES + batch * state
        if runner.is_block:  # its drafts are scored and drawn without a graph
            return GRAPH_LAYER_BYTES * model.drafter.layers + batch * model.drafter.queries * state
        # With sampled drafts there is a second graph, without distributions, for batches that are all greedy.
        graphs = 2 if runner.sampled else 1
        kept = batch * runner.steps * model.vocab * FLOAT if runner.sampled else 0
        return GRAPH_LAYER_BYTES * (runner.steps - 1) * graphs + kept

    def transient(self, runner: Runner, batch: int) -> int:
        """Return the bytes of temporaries inside a graph."""
        model = self.model
        rows = batch * (runner.topk if runner.stage is Stage.DRAFT else runner.draft_tokens)
        if runner.is_block:
            return int(batch * model.drafter.queries * model.layer_elements(self.tensor_parallel) * model.element_bytes)
        size = rows * model.layer_elements(self.tensor_parallel) * model.element_bytes
        scored = batch if runner.stage is Stage.EXTEND else rows
        # The rank's shard of the logits, and all of them gathered.
        gathered = 1 + 1 / self.tensor_parallel if self.tensor_parallel > 1 else 1
        size += scored * model.vocab * model.element_bytes * gathered
        if runner.stage is not Stage.VERIFY:
            size += 2 * scored * model.vocab * FLOAT  # float32 logits and their softmax
        return int(size)

    def logit_rows(self, runner: Runner, batch: int) -> int:
        """Return the rows of float32 logits that a runner writes outside the pool."""
        if runner.is_block:
            return batch * self.model.drafter.queries
        if runner.stage is Stage.DRAFT:
            return 0
        return batch * runner.draft_tokens if runner.stage is Stage.VERIFY else batch
