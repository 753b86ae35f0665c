"""
Divides a GPU's memory between engine, drafter and spot trainer. Pure.

Everything of known size is reserved first; the KV cache gets the rest. If that is too little, the trainer's batches
shrink first, then default arms are dropped, those that verify the most tokens first: an arm without graphs would be
slower than no arm.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from tlt_common.domain.arm import OFF, Arm
from tlt_worker.capacity.graphs.attention import AttentionCosts, attention_costs, built_bytes
from tlt_worker.capacity.graphs.cost import Costs
from tlt_worker.capacity.graphs.plan import Plan, Question, plan_graphs
from tlt_worker.capacity.memory.memory import Memory, Workspace, backlog_of
from tlt_worker.capacity.memory.prefill import CONTEXT_BYTES, NCCL_BYTES, prefill_bytes
from tlt_worker.capacity.memory.table import GIB, MemoryTable, Row
from tlt_worker.capacity.memory.trainer import TrainerMemory, trainers
from tlt_worker.capacity.profile import DeviceProfile
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.engine_config import EngineConfig

MARGIN = 0.02
"""Fraction of a GPU's memory for fragmentation and libraries' own workspaces."""
MIN_CACHE = 0.2
"""Fraction of a GPU's memory below which the KV cache does not shrink for graphs and arms, unless it holds
`max_running` full contexts."""
MAX_WEIGHTS = 0.8
"""Weights that fit into this fraction of a GPU are accepted: if they leave too little, warnings say so."""
MIN_GRAPHS = 0.5
"""Share of the graphs' bytes that must fit for arms to be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The GPUs of a worker, and the model on them."""

    bytes: int
    """Memory of the smallest GPU, in bytes."""
    shape: ModelShape
    context_length: int
    trains: bool = True
    """Whether a spot trainer shares the first GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Division of a GPU's memory."""

    profile: DeviceProfile
    """Device profile with the arms that fit."""
    memory: Memory
    attention: int
    trainer: TrainerMemory | None
    graphs: Plan
    gpu_memory: float
    """Fraction of the GPU for weights and KV cache."""
    table: MemoryTable

    @property
    def weights_limit(self) -> float:
        """Fraction of the GPU within which the weights must fit, even if nothing else does."""
        return max(self.gpu_memory, MAX_WEIGHTS)


def divide(engine: EngineConfig, profile: DeviceProfile, gpus: Gpus) -> Division:
    """Divide a GPU's memory. Return the first division that fits, preferring more arms, then larger batches."""
    found = None
    for arms in _arms(engine, profile):
        for trainer in trainers(gpus.shape) if gpus.trains else (None,):
            found = _Try(engine=engine, profile=replace(profile, arms=arms), gpus=gpus, trainer=trainer)
            if found.fits:
                return found.division()
    assert found is not None  # noqa: S101 - there is at least one set of arms and one trainer
    return found.division()


def _arms(engine: EngineConfig, profile: DeviceProfile) -> Iterator[tuple[Arm, ...]]:
    """Yield the arms of a profile and, if they are defaults, ever smaller subsets."""
    arms = profile.arms
    yield arms
    while engine.arms is None and len(arms) > 1:
        widest = max(arms, key=lambda arm: arm.draft_tokens)
        arms = tuple(arm for arm in arms if arm != widest)
        yield arms


@dataclass(frozen=True, kw_only=True)
class _Try:
    engine: EngineConfig
    profile: DeviceProfile
    gpus: Gpus
    trainer: TrainerMemory | None

    @property
    def fits(self) -> bool:
        return self._left >= MIN_GRAPHS * self._whole.bytes

    def division(self) -> Division:
        graphs = (
            self._whole
            if self._left >= self._whole.bytes
            else plan_graphs(replace(self._question, budget=self._budget))
        )
        rows = [row for row in self._rows(graphs.bytes) if row.bytes]
        outside = sum(row.bytes for row in rows) - self._weights - self._drafter
        share = self.engine.gpu_memory
        if share is None:
            # The KV cache takes what is left, rounded down to what the option can say.
            share = max(0.01, (1000 * max(0, self.gpus.bytes - outside) // self.gpus.bytes) / 1000)
        static = int(share * self.gpus.bytes)
        cache = Row(name="KV cache", bytes=max(0, static - self._weights - self._drafter))
        table = MemoryTable(total=self.gpus.bytes, rows=(*rows[:2], cache, *rows[2:]))
        return Division(
            profile=self.profile,
            memory=Memory(graphs=self._budget, work=self._work),
            attention=self._attention,
            trainer=self.trainer,
            graphs=graphs,
            gpu_memory=share,
            table=table,
        )

    def _rows(self, graphs: int) -> list[Row]:
        shape, trainer = self.gpus.shape, self.trainer
        rows = [
            Row(name="weights", bytes=self._weights),
            Row(name="drafter", bytes=self._drafter),
            Row(name="attention backends", bytes=self._attention),
            Row(name="CUDA graphs", bytes=graphs),
            Row(name="rounds", bytes=self._work),
            Row(name="prefill", bytes=prefill_bytes(shape, self.gpus.bytes, self.engine.tensor_parallel)),
            Row(name="weight updates", bytes=self._update),
            Row(name="CUDA and NCCL", bytes=CONTEXT_BYTES + (NCCL_BYTES if self.engine.tensor_parallel > 1 else 0)),
            Row(name="margin", bytes=int(MARGIN * self.gpus.bytes)),
        ]
        if trainer is not None:
            rows += [
                Row(name="trainer: weights, gradients, momentum", bytes=trainer.learned, owner="trainer"),
                Row(name="trainer: embedding, head", bytes=trainer.shared, owner="trainer"),
                Row(
                    name="trainer: step, CUDA",
                    bytes=trainer.total - trainer.learned - trainer.shared,
                    owner="trainer",
                ),
            ]
        return rows

    @property
    def _weights(self) -> int:
        return self.gpus.shape.weight_bytes(self.engine.tensor_parallel)

    @property
    def _drafter(self) -> int:
        return self.gpus.shape.drafter_bytes(self.engine.tensor_parallel)

    @cached_property
    def _update(self) -> int:
        """
        Return the bytes of an update: a new drafter, whole on every rank before it is sharded, or the policy's largest
        tensor.
        """
        shape = self.gpus.shape
        return max(shape.drafter.parameters, shape.largest_tensor) * shape.element_bytes

    @cached_property
    def _question(self) -> Question:
        engine, gpus = self.engine, self.gpus
        costs = Costs(
            model=gpus.shape,
            tensor_parallel=engine.tensor_parallel,
            context_length=gpus.context_length,
            attention=self._attention_costs,
        )
        return Question(arms=self.profile.arms, costs=costs, max_batch=engine.max_running, allows=engine.bandit.allows)

    @cached_property
    def _attention(self) -> int:
        return built_bytes(self._attention_costs, self.profile.arms)

    @property
    def _attention_costs(self) -> AttentionCosts:
        gpus, ranks = self.gpus, self.engine.tensor_parallel
        return attention_costs(self.profile.attention, gpus.shape, gpus.context_length, ranks)

    @cached_property
    def _work(self) -> int:
        """Return the bytes of rounds outside graphs, at the largest batches of their arms, and between rounds."""
        question, engine = self._question, self.engine
        tokens = engine.max_total_tokens or engine.max_running * self.gpus.context_length
        workspace = Workspace(costs=question.costs, kv_tokens=tokens, free=0)
        allowed = {arm: _largest(arm, question) for arm in dict.fromkeys((OFF, *question.arms))}
        needs = max(workspace.round(arm, batch, _never) for arm, batch in allowed.items())
        learns = any(arm.needs_drafter for arm in question.arms)
        return needs + (backlog_of(slots=tokens, state_bytes=self.gpus.shape.state_bytes) if learns else 0)

    @cached_property
    def _whole(self) -> Plan:
        """Return the bytes of all graphs, limited by `graph_bytes` only."""
        return plan_graphs(replace(self._question, budget=self.engine.graph_bytes))

    @cached_property
    def _left(self) -> int:
        """Return the bytes that remain for graphs."""
        others = sum(row.bytes for row in self._rows(0))
        if self.engine.gpu_memory is not None:
            static = int(self.engine.gpu_memory * self.gpus.bytes)
            return self.gpus.bytes - static - (others - self._weights - self._drafter)
        engine, gpus = self.engine, self.gpus
        tokens = engine.max_total_tokens or engine.max_running * gpus.context_length
        cache = min(tokens * gpus.shape.kv_bytes(engine.tensor_parallel), int(MIN_CACHE * gpus.bytes))
        return gpus.bytes - others - cache

    @property
    def _budget(self) -> int:
        left = max(0, self._left)
        return left if self.engine.graph_bytes is None else min(left, self.engine.graph_bytes)


def _largest(arm: Arm, question: Question) -> int:
    return max((batch for batch in range(1, question.max_batch + 1) if question.allows(arm, batch)), default=1)


def _never(runner: object, batch: int) -> bool:
    del runner, batch
    return False


def warnings_of(division: Division, wanted: DeviceProfile, *, has_share: bool = False) -> tuple[str, ...]:
    """
    Return warnings for the user, each with the keys to change.

    Args:
        division: Division of the memory.
        wanted: The profile before arms were dropped.
        has_share: Whether the configuration sets `engine.gpu_memory`.
    """
    table = division.table
    size = f"{table.total / GIB:.1f} GiB per GPU"
    more = "a larger engine.tensor_parallel, a smaller engine.context_length or engine.max_running"
    if division.trainer is not None:
        more += ", or trainer.enabled false"
    if has_share:
        more += ", or engine.gpu_memory null"
    found = []
    if dropped := [arm.name for arm in wanted.arms if arm not in division.profile.arms]:
        found.append(f"{size} are too small for the default arms {', '.join(dropped)}; to keep them: {more}")
    if division.trainer is not None and not any(arm.needs_drafter for arm in division.profile.arms):
        found.append(
            f"the spot trainer takes {division.trainer.total / GIB:.1f} GiB for a drafter that no arm uses; to free "
            "them: trainer.enabled false"
        )
    if division.graphs.dropped:
        whole = len(division.graphs.dropped) + sum(map(len, division.graphs.captures.values()))
        found.append(
            f"{len(division.graphs.dropped)} of {whole} CUDA graphs do not fit into {division.memory.graphs / GIB:.1f} "
            f"GiB, and their rounds run kernel by kernel; to have them: fewer engine.arms, a larger "
            f"engine.graph_bytes, {more}"
        )
    if table.unplanned:
        found.append(f"{table.unplanned / GIB:.1f} GiB more than {size} are needed; change: {more}")
    return tuple(found)
