"""Capacity of a worker: concurrent requests and KV cache tokens, from `tlt engine plan`. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from tlt_common.domain.arm import Arm
from tlt_common.errors import ConfigError
from tlt_simulator.costs.roofline import READ_SHARES, model_config
from tlt_worker.capacity.attention import Heads
from tlt_worker.capacity.engine_plan import EnginePlan, plan_on_gpus
from tlt_worker.capacity.memory.gpu_plan import Gpus
from tlt_worker.capacity.profile import profile_of
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.checkpoints.drafter_format import drafter_format
from tlt_worker.commands.cards import card as bytes_of
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.families import listed
from tlt_worker.model.requirements import require_runnable


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRoom:
    """Capacity of a worker."""

    slots: int
    """Maximum concurrent requests."""
    kv_room: int
    """KV cache size in tokens."""
    arms: tuple[str, ...]
    """Default arms that fit."""
    warnings: tuple[str, ...] = ()
    """Warnings of `tlt engine plan`, with the keys to change."""


def worker_room(
    card: str,
    model: str,
    gpus: int = 1,
    *,
    slots: int = 256,
    context: int = 32_768,
    trains: bool = True,
    gpu_memory: float | None = None,
) -> WorkerRoom:
    """
    Return the capacity of a worker.

    Args:
        card: A key of `READ_SHARES`.
        model: Name or directory, as for `calculated`.
        gpus: Number of cards of the worker.
        slots: `engine.max_running`.
        context: `engine.context_length`: prompt and response.
        trains: Whether a spot trainer shares the first card.
        gpu_memory: `engine.gpu_memory`; None uses the remaining memory.

    Raises:
        ConfigError: The card or the model is unknown, or the model cannot be sharded over this many cards or does not
            fit; the message is the plan's.
    """
    if card not in READ_SHARES:
        raise ConfigError(f"--card is {card!r}; accepted: {', '.join(READ_SHARES)}", field="card")
    config, (size, accelerator) = model_config(model), bytes_of(card)
    engine = EngineConfig(
        tensor_parallel=gpus, dtype="bfloat16", max_running=slots, context_length=context, gpu_memory=gpu_memory
    )
    usual = engine.arms_on("cuda")
    if len(fits := fitting(usual, context)) < len(usual):
        engine = engine.model_copy(update={"arms": tuple(arm.name for arm in fits)})
    require_runnable(config, engine)
    form = drafter_format(engine, config)
    shape = ModelShape.from_config(config, dtype="bfloat16", drafter=form)
    profile = profile_of(engine, accelerator, family=listed(config), heads=Heads.from_config(config), drafter=form)
    plan = plan_on_gpus(
        engine, profile=profile, gpus=Gpus(bytes=size, shape=shape, context_length=context, trains=trains)
    )
    tokens = _kv_tokens(plan, shape, gpus)
    _require_fit(plan, tokens, context, f"{model} on {gpus} x {card}")
    arms = tuple(arm.name for arm in plan.profile.arms)
    return WorkerRoom(slots=slots, kv_room=tokens, arms=arms, warnings=plan.warnings)


def fitting(arms: Iterable[Arm], context: int) -> tuple[Arm, ...]:
    """Return the arms that an engine with this context can run: a round verifies fewer tokens than the context."""
    return tuple(arm for arm in arms if arm.draft_tokens < context)


def _kv_tokens(plan: EnginePlan, shape: ModelShape, gpus: int) -> int:
    assert plan.division is not None  # noqa: S101 - a plan for GPUs has one
    return plan.division.table.of("KV cache") // shape.kv_bytes(gpus)


def _require_fit(plan: EnginePlan, tokens: int, context: int, what: str) -> None:
    assert plan.division is not None  # noqa: S101 - as above
    table = plan.division.table
    if table.unplanned or tokens < context:
        reason = "; ".join(plan.warnings) or f"the KV cache would hold {tokens} tokens"
        raise ConfigError(
            f"{what} does not fit with a context of {context}: {reason}; accepted: more GPUs per worker, a larger "
            "card, a smaller context or fewer slots",
            field="gpus",
        )
