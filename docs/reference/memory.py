"""The table of docs/gpu-memory.md: public models on public cards, from the worker's own plan."""

from collections.abc import Iterator

from reference.markdown import table
from tlt_common.errors import ConfigError
from tlt_worker.capacity.attention import Heads
from tlt_worker.capacity.engine_plan import EnginePlan, plan_on_gpus
from tlt_worker.capacity.memory.gpu_plan import Gpus
from tlt_worker.capacity.memory.memory import GIB
from tlt_worker.capacity.profile import profile_of
from tlt_worker.checkpoints.drafter_format import drafter_format
from tlt_worker.commands.cards import CARDS, CONFIGS, SHAPE_CONTEXT, SHAPES, card
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.families import listed

GPUS = (1, 2, 4, 8)
LAYOUTS = 2
"""The fewest GPUs that hold a model, and twice as many."""
SINGLE = (("weights", "drafter"), ("KV cache",), ("CUDA graphs",), ("attention backends",))
"""Rows of the plan that have a column, or share one."""
HEAD = ("card", "model", "GPUs", "attention", "`gpu_memory`", "weights", "KV cache", "graphs", "attn.", "rest",
        "trainer", "arms dropped")  # fmt: skip


def section() -> str:
    """Return the table; a model that no number of GPUs holds has one row."""
    rows = (row for name in CARDS for model in SHAPES for row in _rows(name, model))
    return table(HEAD, rows)


def _rows(name: str, model: str) -> Iterator[list[str]]:
    plans = [(count, plan) for count in GPUS if (plan := plan_for(name, model, count)) is not None][:LAYOUTS]
    if not plans:
        yield [name, model, str(GPUS[-1]), "does not fit", *[""] * (len(HEAD) - 4)]
    for count, plan in plans:
        yield [name, model, str(count), *_cells(plan)]


def plan_for(name: str, model: str, gpus: int) -> EnginePlan | None:
    """Return the plan for a model on some GPUs; None: it does not fit, or cannot be sharded over so many."""
    memory, accelerator = card(name)
    shape, config = SHAPES[model], CONFIGS[model]
    if shape.heads % gpus or (shape.kv_heads % gpus and gpus % shape.kv_heads):
        return None
    engine = EngineConfig(tensor_parallel=gpus)
    shape = shape.drafting(drafter_format(engine, config))
    try:
        profile = profile_of(engine, accelerator, family=listed(config), heads=Heads.from_config(config))
        asked = Gpus(bytes=memory, shape=shape, context_length=SHAPE_CONTEXT, trains=True)
        plan = plan_on_gpus(engine, profile=profile, gpus=asked)
    except ConfigError:
        return None
    return plan if plan.division is not None and not plan.division.table.unplanned else None


def _cells(plan: EnginePlan) -> list[str]:
    assert plan.division is not None, "checked by plan_for"  # noqa: S101 - a bug
    held, default = (
        plan.division.table,
        profile_of(EngineConfig(), plan.profile.accelerator, family=plan.profile.family),
    )
    trainer = held.owned("trainer")
    known = [sum(map(held.of, rows)) for rows in SINGLE]
    rest = sum(row.bytes for row in held.rows) - trainer - sum(known)
    sizes = (*known, rest, trainer)
    dropped = [arm.name for arm in default.arms if arm not in plan.plan.arms]
    share = f"{plan.division.gpu_memory:.3g}"
    return [str(plan.profile.attention), share, *(f"{size / GIB:.1f}" for size in sizes), ", ".join(dropped) or "none"]
