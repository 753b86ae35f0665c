"""Formats a plan as text and as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from tlt_common.domain.arm import Arm
from tlt_worker.capacity.engine_plan import EnginePlan
from tlt_worker.capacity.graphs.plan import Plan
from tlt_worker.capacity.graphs.runner import Runner, runners_of
from tlt_worker.capacity.memory.table import GIB, MemoryTable, Row

GB = 10**9
"""The unit of the TLT paper."""


def as_dict(plan: Plan) -> dict[str, Any]:
    """Return the plan in JSON-compatible types. Bytes are estimates, per rank."""
    return {
        "bytes": plan.bytes,
        "budget": plan.question.budget,
        "single_bytes": plan.single,
        "naive_bytes": plan.naive,
        "naive_over_planned": round(plan.naive / plan.bytes, 4) if plan.bytes else None,
        "arms": [_arm(plan, arm) for arm in plan.arms],
        "captures": [_capture(plan, runner) for runner in plan.captures],
        "dropped": [
            {"stage": graph.runner.stage, "graph": graph.runner.name, "batch": graph.batch, "saves_s": graph.saves_s}
            for graph in plan.dropped
        ],
    }


def _arm(plan: Plan, arm: Arm) -> dict[str, Any]:
    allowed = [batch for batch in range(1, plan.question.max_batch + 1) if plan.question.allows(arm, batch)]
    return {
        "name": arm.name,
        "draft_tokens": arm.draft_tokens,
        "allowed_upto": max(allowed, default=0),
        "graphs_upto": {str(runner.stage): max(plan.sizes(runner), default=0) for runner in runners_of(arm)},
    }


def _capture(plan: Plan, runner: Runner) -> dict[str, Any]:
    sizes = plan.sizes(runner)
    return {
        "stage": runner.stage,
        "graph": runner.name,
        "arms": _users(plan, runner),
        "batches": list(sizes),
        "bytes": plan.question.costs.runner(runner, sizes),
    }


def _users(plan: Plan, runner: Runner) -> list[str]:
    return [arm.name for arm in plan.arms if runner in runners_of(arm)]


def lines(plan: Plan) -> Iterator[str]:
    """Yield the plan as a table, followed by totals."""
    costs = plan.question.costs
    rows = [("graph", "arms", "batches", "GB")]
    for runner, sizes in plan.captures.items():
        size = f"{costs.runner(runner, sizes) / GB:.3f}"
        rows.append((runner.name, " ".join(_users(plan, runner)), _ranges(sizes), size))
    shared = costs.shared({runner: sizes[-1] for runner, sizes in plan.captures.items()})
    rows.append(("shared", "", "pool, logits" if costs.shared_logits else "pool", f"{shared / GB:.3f}"))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) + f"  {row[3]:>7}"
    yield ""
    yield (
        f"planned {plan.bytes / GB:.2f} GB; single {plan.single / GB:.2f}; every arm by itself {plan.naive / GB:.2f}"
        + (f" ({plan.naive / plan.bytes:.1f}x)" if plan.bytes else "")
    )
    if plan.question.budget is not None:
        yield f"budget {plan.question.budget / GB:.2f} GB: {len(plan.dropped)} graphs dropped"
    yield from _dropped(plan)
    yield "Bytes are estimates per GPU, not yet measured."


def _dropped(plan: Plan) -> Iterator[str]:
    for runner in dict.fromkeys(graph.runner for graph in plan.dropped):
        yield f"  {runner.name}: {_ranges(sorted(graph.batch for graph in plan.dropped if graph.runner == runner))}"


def _ranges(sizes: Sequence[int]) -> str:
    """Abbreviate sizes: `1-8 10-32/2`."""
    parts, place = [], 0
    while place < len(sizes):
        end = place + 1
        while end + 1 < len(sizes) and sizes[end + 1] - sizes[end] == sizes[place + 1] - sizes[place]:
            end += 1
        if end >= len(sizes) or end == place + 1:
            parts.append(str(sizes[place]))
            place += 1
            continue
        step = sizes[place + 1] - sizes[place]
        parts.append(f"{sizes[place]}-{sizes[end]}" + (f"/{step}" if step > 1 else ""))
        place = end + 1
    return " ".join(parts)


def memory_of(plan: EnginePlan) -> dict[str, Any]:
    """Return the division of a GPU's memory in JSON-compatible types; empty on a CPU."""
    if (division := plan.division) is None:
        return {}
    table = division.table
    return {
        "attention": str(plan.profile.attention),
        "gpu_memory": division.gpu_memory,
        "gib": gib_of(table.rows),
        "plan_gib_total": round(table.total / GIB, 3),
        "plan_gib_free": round(table.free / GIB, 3),
        "plan_gib_unplanned": round(table.unplanned / GIB, 3),
        "trainer_batch_tokens": division.trainer.batch_tokens if division.trainer else 0,
        "warnings": list(plan.warnings),
    }


def gib_of(rows: Sequence[Row]) -> dict[str, float]:
    """Return the rows of a memory table in GiB."""
    return {row.name: round(row.bytes / GIB, 3) for row in rows}


def table_lines(table: MemoryTable) -> Iterator[str]:
    """Yield a memory table as text."""
    width = max(len(row.name) for row in table.rows)
    yield f"{'memory per GPU'.ljust(width)}  {table.total / GIB:7.2f} GiB"
    for row in table.rows:
        yield f"{row.name.ljust(width)}  {row.bytes / GIB:7.2f}"
    yield f"{'free'.ljust(width)}  {table.free / GIB:7.2f}"
    yield f"{'unplanned'.ljust(width)}  {table.unplanned / GIB:7.2f}"
