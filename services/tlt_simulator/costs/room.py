"""Memory of a worker, with the suite and without it, as `tlt engine plan` divides it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tlt_common.config.base import Frozen
from tlt_common.domain.arm import OFF
from tlt_common.errors import ConfigError
from tlt_simulator.costs.roofline import model_config
from tlt_worker.capacity.attention import Heads
from tlt_worker.capacity.engine_plan import EnginePlan, plan_on_gpus
from tlt_worker.capacity.memory.gpu_plan import Gpus
from tlt_worker.capacity.profile import profile_of
from tlt_worker.capacity.shape import DraftShape, ModelShape
from tlt_worker.checkpoints.drafter_format import drafter_format
from tlt_worker.commands.cards import READ_SHARES
from tlt_worker.commands.cards import card as bytes_of
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.families import listed
from tlt_worker.model.requirements import require_runnable

LEAST_SLOTS = 8
"""Fewer slots are not proposed for arms that do not fit."""
MOST_GPUS = 8
"""More GPUs per worker are not: a node has eight."""
NO_DRAFTER = DraftShape(heads=0, kv_heads=0, head_dim=0, intermediate=0, parameters=0, layers=0, states=0, captured=0)


class WorkerMemory(Frozen):
    """What fits onto a worker's GPUs. Each side is planned by itself."""

    card: str
    model: str
    context: int
    """Maximum tokens of prompt and response."""
    arms: tuple[str, ...]
    """Arms that fit."""
    kv_room: int
    """KV cache of a worker with the suite, in tokens."""
    plain_kv_room: int
    """The same without it: no drafter, no spot trainer, no graphs of drafts."""
    given: int | None = None
    """KV cache that was given instead, on both sides; null for the plan's."""
    warnings: tuple[str, ...] = ()
    """What was left out, with the keys that would bring it back."""


def worker_memory(card: str, model: str, engine: EngineConfig, *, kv_room: int | None = None) -> WorkerMemory:
    """
    Plan a worker's memory with the suite, and without it.

    Args:
        card: A key of `READ_SHARES`.
        model: Name or directory, as for `calculated`.
        engine: The engine's configuration, with its context length.
        kv_room: Tokens of the KV cache on both sides; None for what the plan leaves.

    Raises:
        ConfigError: The card or the model is unknown; the model cannot be sharded over this many cards or does not fit
            on one of the sides, for the plan's reason; or a configured arm cannot run.
    """
    if card not in READ_SHARES:
        raise ConfigError(f"--card is {card!r}; accepted: {', '.join(READ_SHARES)}", field="card")
    context, wanted, warnings = engine.context_length or 0, engine.arms_on("cuda"), list[str]()
    short = [arm.name for arm in wanted if arm.draft_tokens >= context]
    if short and engine.arms is None:
        engine = engine.model_copy(update={"arms": tuple(arm.name for arm in wanted if arm.name not in short)})
        warnings.append(
            f"not simulated, since they verify more tokens than the context of this log, {context}: {', '.join(short)}"
        )
    sides = _Sides(card, model, model_config(model))
    plan, room = sides.planned(engine, with_suite=True)
    _, plain_room = sides.planned(engine, with_suite=False)
    arms = tuple(arm.name for arm in plan.profile.arms)
    if dropped := [arm.name for arm in wanted if arm.name not in {*arms, *short}]:
        keys = " or ".join(sides.keeping(engine, dropped)) or "none of the sizes that were tried"
        warnings.append(f"not simulated, since they do not fit: {', '.join(dropped)}; what keeps them: {keys}")
    return WorkerMemory(
        card=card,
        model=model,
        context=context,
        arms=arms,
        kv_room=room if kv_room is None else kv_room,
        plain_kv_room=plain_room if kv_room is None else kv_room,
        given=kv_room,
        warnings=(*warnings, *plan.warnings),
    )


@dataclass(frozen=True, slots=True)
class _Sides:
    """Plans of one model on one kind of card."""

    card: str
    model: str
    config: Mapping[str, Any]

    def planned(self, engine: EngineConfig, *, with_suite: bool) -> tuple[EnginePlan, int]:
        """Return the plan of one side, and the tokens of its KV cache."""
        config, (size, accelerator), gpus = self.config, bytes_of(self.card), engine.tensor_parallel
        require_runnable(config, engine)
        form = drafter_format(engine, config)
        shape, context = ModelShape.from_config(config, dtype="bfloat16", drafter=form), engine.context_length or 0
        if not with_suite:
            shape, engine = replace(shape, draft=NO_DRAFTER), engine.model_copy(update={"arms": (OFF.name,)})
        profile = profile_of(engine, accelerator, family=listed(config), heads=Heads.from_config(config), drafter=form)
        divided = Gpus(bytes=size, shape=shape, context_length=context, trains=with_suite)
        plan = plan_on_gpus(engine, profile=profile, gpus=divided)
        assert plan.division is not None  # noqa: S101 - a plan for GPUs has one
        table = plan.division.table
        tokens = table.of("KV cache") // shape.kv_bytes(gpus)
        if table.unplanned or tokens < context:
            reason = "; ".join(plan.warnings) or f"the KV cache would hold {tokens} tokens"
            raise ConfigError(
                f"{self.model} on {gpus} x {self.card} does not fit with a context of {context}: {reason}; accepted: "
                "more GPUs per worker, a larger card, a smaller context or fewer slots",
                field="gpus",
            )
        return plan, tokens

    def keeping(self, engine: EngineConfig, dropped: Sequence[str]) -> Iterator[str]:
        """Yield the nearest value of each key with which these arms fit."""
        slots = [engine.max_running >> halved for halved in range(1, engine.max_running.bit_length())]
        gpus = [engine.tensor_parallel << doubled for doubled in range(1, MOST_GPUS.bit_length())]
        for key, option, values in (
            ("max_running", "--slots", [value for value in slots if value >= LEAST_SLOTS]),
            ("tensor_parallel", "--gpus-per-worker", [value for value in gpus if value <= MOST_GPUS]),
        ):
            fitting = (value for value in values if self._fit(engine.model_copy(update={key: value}), dropped))
            if (value := next(fitting, None)) is not None:
                yield f"worker.engine.{key}={value} ({option} {value})"

    def _fit(self, engine: EngineConfig, names: Sequence[str]) -> bool:
        try:
            plan, _ = self.planned(engine, with_suite=True)
        except ConfigError:  # too small in another way, or the heads cannot be divided
            return False
        return {*names} <= {arm.name for arm in plan.profile.arms}
