"""Memory for weights, graphs and rounds: checks that a model fits, and at which batch sizes an arm does. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tlt_common.domain.arm import OFF, Arm
from tlt_common.errors import ConfigError
from tlt_worker.capacity.graphs.cost import FLOAT, Costs
from tlt_worker.capacity.graphs.plan import Plan
from tlt_worker.capacity.graphs.runner import Runner, Stage, runners_of

GIB = 2**30

CPU_WORK_SHARE = 0.2
"""Fraction of a machine's memory, which also holds weights, KV cache and trainers."""

BACKLOG_BYTES = 256 * 2**20
"""Maximum size of hidden states kept from rounds and prompts that the drafter did not process, to complete its KV
cache."""
SLOT_BYTES = 8
"""Bytes per KV cache slot to locate its hidden state."""


MIN_CACHE = 0.1
"""Fraction of the engine's memory that must remain for the KV cache; with less, hardly any request could run."""
DRAW_BYTES = 5 * FLOAT
"""Bytes per node and token of the vocabulary, at most: for logprobs of other kinds than SGLang's, a copy of the logits
and their raw, scaled, filtered and chosen forms. Verification takes 3 floats: probabilities, filtered ones, and the
zeros that SGLang passes for the drafts of trees. A test counts both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory per rank, in bytes."""

    graphs: int
    work: int
    """Bytes for allocations of rounds."""


def backlog_of(*, slots: int, state_bytes: int) -> int:
    """Return the bytes of hidden states that an engine with a drafter may keep between rounds, on each rank."""
    return min(BACKLOG_BYTES, slots * state_bytes) + slots * SLOT_BYTES


def cpu_memory_of(machine_bytes: int, *, ranks: int) -> Memory:
    """Return a machine's memory as divided for a CPU, which has no graphs."""
    return Memory(graphs=0, work=int(machine_bytes * CPU_WORK_SHARE / ranks))


def machine_memory(root: Path = Path("/")) -> int:
    """Return the memory of this machine, or of the container this process runs in, in bytes."""
    total = next(
        int(line.split()[1]) * 1024
        for line in (root / "proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal:")
    )
    try:
        limit = (root / "sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


def require_room(model_bytes: int, *, gpu_bytes: Sequence[int], tensor_parallel: int, gpu_memory: float) -> None:
    """
    Check that a model fits on the GPUs.

    Args:
        model_bytes: Size of the weights once loaded.
        gpu_bytes: Memory of each GPU visible to this process.
        tensor_parallel: Number of GPUs the model is sharded over.
        gpu_memory: Fraction of each GPU's memory for weights and KV cache.

    Raises:
        ConfigError: There are too few GPUs, or the model does not fit; the message states how many would suffice.
    """
    if len(gpu_bytes) < tensor_parallel:
        raise ConfigError(
            f"engine.tensor_parallel is {tensor_parallel}, but this worker has {len(gpu_bytes)} GPUs; the "
            "maximum is that number (in the chart, worker.gpus sets both)",
            field="engine.tensor_parallel",
        )
    usable = min(gpu_bytes) * gpu_memory * (1 - MIN_CACHE)
    if model_bytes <= usable * tensor_parallel:
        return
    needed = 1
    while usable * needed < model_bytes:
        needed *= 2
    raise ConfigError(
        f"the model's weights take {model_bytes / GIB:.1f} GiB, but {tensor_parallel} GPUs of "
        f"{min(gpu_bytes) / GIB:.0f} GiB hold {usable * tensor_parallel / GIB:.1f} with engine.gpu_memory "
        f"{gpu_memory:g}; set engine.tensor_parallel to {needed} (in the chart, worker.gpus)",
        field="engine.tensor_parallel",
    )


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
        # Of a block, the logits of all drafts in both types besides.
        scored = FLOAT + model.element_bytes if arm.is_block else 0
        proposals = batch * arm.steps * model.vocab * (FLOAT + scored) if arm.sampled else 0
        drawing = nodes * model.vocab * DRAW_BYTES
        eager = [runner for runner in runners_of(arm) if not has_graph(runner, batch)]
        passes = max((self._pass(runner, batch) for runner in eager), default=0)
        return mask + states + proposals + max(drawing, passes)

    def _pass(self, runner: Runner, batch: int) -> int:
        rows = self.costs.logit_rows(runner, batch) if runner.stage is Stage.VERIFY else 0
        return self.costs.transient(runner, batch) + rows * self.costs.model.vocab * FLOAT

    def max_batch(self, arm: Arm, plan: Plan) -> int:
        """
        Return the largest batch size at which a round of this arm fits, or 0 if none does.

        All smaller sizes fit, too.
        """
        if arm == OFF:
            return plan.question.max_batch
        fitting = 0
        while fitting < plan.question.max_batch and self.round(arm, fitting + 1, plan.has_graph) <= self.free:
            fitting += 1
        return fitting
