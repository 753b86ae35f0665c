"""Plans the arms and CUDA graphs of one engine from its model, device and configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tlt_common.domain.arm import OFF, Arm
from tlt_worker.capacity.acceptance import require_allowed, require_fit, require_model
from tlt_worker.capacity.graphs.cost import Costs
from tlt_worker.capacity.graphs.plan import Plan, Question, plan_graphs
from tlt_worker.capacity.graphs.runner import runners_of
from tlt_worker.capacity.memory.gpu_plan import Division, Gpus, divide, warnings_of
from tlt_worker.capacity.memory.memory import Memory, Workspace, backlog_of
from tlt_worker.capacity.profile import DeviceProfile
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.engine_config import EngineConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """Graphs of an engine, and the largest batch of each arm."""

    profile: DeviceProfile
    plan: Plan
    memory: Memory
    max_batch: Mapping[Arm, int]
    """Largest batch size at which a round of an arm fits into memory."""
    division: Division | None = None
    """Division of a GPU's memory; None on a CPU."""
    warnings: tuple[str, ...] = ()
    """Warnings for the user, with the keys to change."""

    def resolved(self, engine: EngineConfig) -> EngineConfig:
        """Return the configuration with nulls replaced by planned values, so that every process reads the same."""
        share = None if self.division is None else self.division.gpu_memory
        arms = tuple(arm.name for arm in self.profile.arms) or (OFF.name,)
        return engine.model_copy(update={"dtype": self.profile.dtype, "arms": arms, "gpu_memory": share})

    def captures(self, arm: Arm, *, shared: bool = True) -> dict[str, tuple[int, ...]]:
        """
        Return the batch sizes captured for an arm, by stage.

        Without `shared`, as if each arm captured its own graphs.
        """
        separate = () if shared or arm == OFF else self.plan.separate
        return {str(runner.stage): separate or self.plan.sizes(runner) for runner in runners_of(arm)}


def plan_engine(
    engine: EngineConfig,
    *,
    profile: DeviceProfile,
    shape: ModelShape,
    memory: Memory,
    context_length: int,
    division: Division | None = None,
) -> EnginePlan:
    """
    Plan an engine within its memory.

    Args:
        engine: The engine's configuration.
        profile: Device profile of the engine.
        shape: Sizes of the model.
        memory: Memory per rank. Without bytes for graphs (a CPU) nothing is captured.
        context_length: Maximum length of prompt and response, in tokens.
        division: Division of a GPU's memory, with its graphs.

    Raises:
        ConfigError: An arm cannot run; field `engine.arms`.
    """
    arms, allows = profile.arms, engine.bandit.allows
    kv_tokens = engine.max_total_tokens or engine.max_running * context_length
    require_model(arms, vocab=shape.vocab, context_length=context_length, kv_tokens=kv_tokens, queries=profile.queries)
    require_allowed(arms, allows)
    if division is None:
        costs = Costs(model=shape, tensor_parallel=engine.tensor_parallel, context_length=context_length)
        question = Question(arms=arms, costs=costs, max_batch=engine.max_running, allows=allows, budget=memory.graphs)
        plan = plan_graphs(question)
    else:
        plan, costs = division.graphs, division.graphs.question.costs
    kept = backlog_of(slots=kv_tokens, state_bytes=shape.state_bytes) if any(arm.needs_drafter for arm in arms) else 0
    free = max(0, memory.work - kept)
    workspace = Workspace(costs=costs, kv_tokens=kv_tokens, free=free)
    max_batch = {arm: workspace.max_batch(arm, plan) for arm in plan.arms}
    drafting = [arm for arm in plan.arms if arm != OFF]
    require_fit(drafting, max_batch.__getitem__, lambda arm: workspace.round(arm, 1, plan.has_graph), free=free)
    return EnginePlan(
        profile=profile, plan=plan, memory=memory, max_batch=max_batch, division=division, warnings=profile.warnings
    )


def plan_on_gpus(engine: EngineConfig, *, profile: DeviceProfile, gpus: Gpus) -> EnginePlan:
    """
    Plan an engine on GPUs, together with its drafter and its spot trainer.

    Raises:
        ConfigError: An arm cannot run; field `engine.arms`.
    """
    division = divide(engine, profile, gpus)
    plan = plan_engine(
        engine,
        profile=division.profile,
        shape=gpus.shape,
        memory=division.memory,
        context_length=gpus.context_length,
        division=division,
    )
    told = warnings_of(division, profile, has_share=engine.gpu_memory is not None)
    return replace(plan, warnings=(*profile.warnings, *told))
