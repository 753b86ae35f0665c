"""`tlt engine plan --all`: every card and shape, as one Markdown table. Pure."""

from collections.abc import Iterator
from typing import Any

from tlt_common.errors import ConfigError
from tlt_worker.capacity.engine_plan import EnginePlan, plan_on_gpus
from tlt_worker.capacity.memory.gpu_plan import Gpus
from tlt_worker.capacity.memory.memory import MIN_CACHE
from tlt_worker.capacity.memory.table import GIB, MemoryTable
from tlt_worker.capacity.profile import profile_of
from tlt_worker.commands.cards import CARDS, SHAPE_CONTEXT, SHAPES, card
from tlt_worker.engine_config import EngineConfig

PARALLEL = (1, 2, 4, 8)
COLUMNS = ("card", "model", "GPUs", "attention", "`gpu_memory`", "weights", "KV cache", "graphs", "attn.", "rest")
COLUMNS_TRAINED = ("trainer", "unplanned", "arms dropped")
SMALLEST_SHARE = 0.8


def overview(engine: EngineConfig) -> Iterator[dict[str, Any]]:
    """Yield the plan of every card and shape, on the smallest number of GPUs that hold it, and on twice as many."""
    for name in CARDS:
        for shape in SHAPES:
            fitting = 0
            for ranks in PARALLEL:
                found = _entry(engine.model_copy(update={"tensor_parallel": ranks}), name, shape)
                if found is not None and fitting < 2:
                    fitting += 1
                    yield found
            if not fitting:
                yield {"card": name, "model": shape, "tensor_parallel": 8, "fits": False}


def _entry(engine: EngineConfig, name: str, model: str) -> dict[str, Any] | None:
    size, accelerator = card(name)
    shape, context = SHAPES[model], engine.context_length or SHAPE_CONTEXT
    if shape.weight_bytes(engine.tensor_parallel) > size * SMALLEST_SHARE * (1 - MIN_CACHE):
        return None
    profile = profile_of(engine, accelerator)
    gpus = Gpus(bytes=size, shape=shape, context_length=context)
    try:
        plan = plan_on_gpus(engine, profile=profile, gpus=gpus)
    except ConfigError:
        return None
    if plan.division is None or plan.division.table.unplanned:
        return None
    dropped = [arm.name for arm in profile.arms if arm not in plan.profile.arms]
    return {
        "card": name,
        "model": model,
        "tensor_parallel": engine.tensor_parallel,
        "fits": True,
        **memory_of(plan),
        "arms_dropped": dropped,
    }


def memory_of(plan: EnginePlan) -> dict[str, Any]:
    """Return how a plan divides a GPU, in JSON-compatible types; empty on a CPU."""
    if (division := plan.division) is None:
        return {}
    table = division.table
    return {
        "attention": str(plan.profile.attention),
        "gpu_memory": division.gpu_memory,
        "gib": {row.name: round(row.bytes / GIB, 3) for row in table.rows},
        "plan_gib_total": round(table.total / GIB, 3),
        "plan_gib_free": round(table.free / GIB, 3),
        "plan_gib_unplanned": round(table.unplanned / GIB, 3),
        "trainer_batch_tokens": division.trainer.batch_tokens if division.trainer else 0,
        "warnings": list(plan.warnings),
    }


def table_lines(table: MemoryTable) -> Iterator[str]:
    """Yield a memory table as text."""
    width = max(len(row.name) for row in table.rows)
    yield f"{'memory per GPU'.ljust(width)}  {table.total / GIB:7.2f} GiB"
    for row in table.rows:
        yield f"{row.name.ljust(width)}  {row.bytes / GIB:7.2f}"
    yield f"{'free'.ljust(width)}  {table.free / GIB:7.2f}"
    yield f"{'unplanned'.ljust(width)}  {table.unplanned / GIB:7.2f}"


def markdown(entries: Iterator[dict[str, Any]]) -> Iterator[str]:
    """Yield the overview as a Markdown table; sizes are GiB per GPU."""
    columns = (*COLUMNS, *COLUMNS_TRAINED)
    yield _line(columns)
    yield _line(tuple("---" for _ in columns))
    for entry in entries:
        yield _line(_cells(entry))


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    head = (entry["card"], entry["model"], str(entry["tensor_parallel"]))
    if not entry["fits"]:
        return (*head, "does not fit", *("" for _ in range(len(COLUMNS) + len(COLUMNS_TRAINED) - 4)))
    gib = entry["gib"]
    trained = sum(size for name, size in gib.items() if name.startswith("trainer"))
    named = sum(gib.get(name, 0) for name in ("weights", "drafter", "KV cache", "CUDA graphs", "attention backends"))
    sizes = (
        gib["weights"] + gib["drafter"],
        gib["KV cache"],
        gib.get("CUDA graphs", 0.0),
        gib.get("attention backends", 0.0),
        sum(gib.values()) - named - trained,
        trained,
        entry["plan_gib_unplanned"],
    )
    shown = [f"{size:.1f}" for size in sizes]
    return (*head, entry["attention"], f"{entry['gpu_memory']:g}", *shown, ", ".join(entry["arms_dropped"]) or "none")


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"
