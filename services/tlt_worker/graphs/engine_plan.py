"""What one engine may run and captures, from its model, its device and its options."""

from collections.abc import Mapping
from dataclasses import dataclass

from tlt_common.bandit import BanditConfig
from tlt_common.domain.strategy import OFF, Arm
from tlt_worker.graphs.acceptance import require_allowed, require_arms, require_fit
from tlt_worker.graphs.cost import Costs
from tlt_worker.graphs.memory import Memory, backlog_of
from tlt_worker.graphs.plan import Plan, Question, plan_graphs
from tlt_worker.graphs.runner import runners_of
from tlt_worker.graphs.shape import ModelShape
from tlt_worker.graphs.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """Graphs of an engine, and how far each arm fits."""

    plan: Plan
    memory: Memory
    backends: int
    """Bytes of attention backends, beside the plan's."""
    most: Mapping[Arm, int]
    """Largest batch at which a round of an arm fits into memory."""

    def captures(self, arm: Arm) -> dict[str, tuple[int, ...]]:
        """Batch sizes captured for an arm, by stage."""
        return {str(runner.stage): self.plan.sizes(runner) for runner in runners_of(arm)}


def plan_engine(
    *,
    shape: ModelShape,
    arms: tuple[Arm, ...],
    memory: Memory,
    context_length: int,
    max_running: int,
    max_total_tokens: int | None = None,
    tensor_parallel: int = 1,
    thresholds: BanditConfig | None = None,
    attention_workspace: int = 0,
) -> EnginePlan:
    """
    Plan an engine.

    Args:
        shape: The model.
        arms: As configured; off is added.
        memory: Per rank. Without bytes for graphs (a CPU) nothing is captured.
        context_length: Tokens.
        max_running: Most requests decoded at once.
        max_total_tokens: Tokens of key/value cache; None: as many as max_running contexts.
        tensor_parallel: Ranks.
        attention_workspace: Bytes of one attention backend of the target; each shape to verify has its own. They are
            taken from the memory for graphs first.
        thresholds: At which batch sizes the bandit lets arms run; None: its defaults.

    Raises:
        ConfigError: An arm cannot run; field `arms`.
    """
    kv_tokens = max_total_tokens or max_running * context_length
    require_arms(arms, vocab=shape.vocab, context_length=context_length, kv_tokens=kv_tokens)
    thresholds = thresholds or BanditConfig()
    require_allowed(arms, thresholds.allows)
    costs = Costs(model=shape, tensor_parallel=tensor_parallel, context_length=context_length)
    backends = attention_workspace * len({runners_of(arm)[0] for arm in (OFF, *arms)})
    question = Question(
        arms=arms,
        costs=costs,
        most=max_running,
        allows=thresholds.allows,
        budget=max(0, memory.graphs - backends),
    )
    plan = plan_graphs(question)
    kept = backlog_of(slots=kv_tokens, state_bytes=shape.state_bytes) if any(arm.learned for arm in arms) else 0
    free = max(0, memory.work - kept - max(0, backends - memory.graphs))
    workspace = Workspace(costs=costs, kv_tokens=kv_tokens, free=free)
    most = {arm: workspace.most(arm, plan) for arm in plan.arms}
    drafting = [arm for arm in plan.arms if arm != OFF]
    require_fit(drafting, most.__getitem__, lambda arm: workspace.round(arm, 1, plan.has_graph), free=free)
    return EnginePlan(plan=plan, memory=memory, backends=backends, most=most)
