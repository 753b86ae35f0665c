"""Plans what one engine may run and captures, from its model, device and configuration."""

from collections.abc import Mapping
from dataclasses import dataclass

from tlt_common.domain.arm import OFF, Arm
from tlt_worker.capacity.acceptance import require_allowed, require_fit, require_model
from tlt_worker.capacity.cost import Costs
from tlt_worker.capacity.memory import Memory, backlog_of
from tlt_worker.capacity.plan import Plan, Question, plan_graphs
from tlt_worker.capacity.runner import runners_of
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.capacity.workspace import Workspace
from tlt_worker.engine_config import EngineConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """Graphs of an engine, and the largest batch of each arm."""

    plan: Plan
    memory: Memory
    backends: int
    """Bytes of attention backends, in addition to the plan's."""
    max_batch: Mapping[Arm, int]
    """Largest batch size at which a round of an arm fits into memory."""

    def captures(self, arm: Arm) -> dict[str, tuple[int, ...]]:
        """Return the batch sizes captured for an arm, by stage."""
        return {str(runner.stage): self.plan.sizes(runner) for runner in runners_of(arm)}


def plan_engine(
    engine: EngineConfig,
    *,
    device: str,
    shape: ModelShape,
    memory: Memory,
    context_length: int,
    attention_workspace: int = 0,
) -> EnginePlan:
    """
    Plan an engine.

    Args:
        engine: The engine's configuration.
        device: `cuda` or `cpu`.
        shape: Sizes of the model.
        memory: Memory per rank. Without bytes for graphs (a CPU) nothing is captured.
        context_length: Maximum length of prompt and response, in tokens.
        attention_workspace: Bytes of one attention backend of the target; each shape to verify has its own. They are
            deducted from the memory for graphs first.

    Raises:
        ConfigError: An arm cannot run; field `engine.arms`.
    """
    arms, allows = engine.arms_on(device), engine.bandit.allows
    kv_tokens = engine.max_total_tokens or engine.max_running * context_length
    require_model(arms, vocab=shape.vocab, context_length=context_length, kv_tokens=kv_tokens)
    require_allowed(arms, allows)
    costs = Costs(model=shape, tensor_parallel=engine.tensor_parallel, context_length=context_length)
    backends = attention_workspace * len({runners_of(arm)[0] for arm in (OFF, *arms)})
    budget = max(0, memory.graphs - backends)
    plan = plan_graphs(Question(arms=arms, costs=costs, max_batch=engine.max_running, allows=allows, budget=budget))
    kept = backlog_of(slots=kv_tokens, state_bytes=shape.state_bytes) if any(arm.needs_drafter for arm in arms) else 0
    free = max(0, memory.work - kept - max(0, backends - memory.graphs))
    workspace = Workspace(costs=costs, kv_tokens=kv_tokens, free=free)
    max_batch = {arm: workspace.max_batch(arm, plan) for arm in plan.arms}
    drafting = [arm for arm in plan.arms if arm != OFF]
    require_fit(drafting, max_batch.__getitem__, lambda arm: workspace.round(arm, 1, plan.has_graph), free=free)
    return EnginePlan(plan=plan, memory=memory, backends=backends, max_batch=max_batch)
