"""
Decides which CUDA graphs an engine captures.

Arms are captured for the batch sizes at which they may run (the thresholds of BEG-MAB by tokens to verify), target and
drafter separately, and arms whose captures have the same shape share them. Graphs that exceed a byte budget are
dropped, least useful per byte first; the order does not depend on the budget, so that a smaller one drops the same and
more.

The benefit of a graph is the time of the kernel launches that it replaces by a single one, weighted by the share of
rounds that use it. Without measurements, every allowed arm is assumed equally likely, and the number of running
requests long-tailed as in rollouts: the time at a batch size of b is proportional to 1 / b.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tlt_common.domain.arm import OFF, Arm
from tlt_worker.capacity.graphs.batches import Allows, allowed_sizes, batch_sizes, reach
from tlt_worker.capacity.graphs.cost import Costs
from tlt_worker.capacity.graphs.runner import Runner, Stage, runners_of

KERNELS_PER_LAYER = 12
LAUNCH_S = 5e-6
"""Seconds per kernel launch by PyTorch on one CPU thread."""

Captures = Mapping[Runner, tuple[int, ...]]
"""Batch sizes, ascending, by runner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Input of the planning problem."""

    arms: tuple[Arm, ...]
    """The arms. Off is always included."""
    costs: Costs
    max_batch: int
    """Maximum number of requests decoded concurrently."""
    allows: Allows
    budget: int | None = None
    """Bytes per rank; None means no limit."""


@dataclass(frozen=True, slots=True)
class DroppedGraph:
    """A graph dropped to meet the budget."""

    runner: Runner
    batch: int
    saves_s: float
    """Expected seconds per round it would have saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Graphs to capture, and their estimated bytes."""

    question: Question
    arms: tuple[Arm, ...]
    """The arms, off first."""
    captures: Captures
    bytes: int
    dropped: tuple[DroppedGraph, ...] = ()
    """Dropped graphs, least useful first."""
    single: int = 0
    """Bytes of off and the most expensive other arm, at every batch size at which any arm drafts."""
    separate: tuple[int, ...] = ()
    """Batch sizes at which any arm drafts."""
    naive: int = 0
    """Bytes of every arm captured separately at these batch sizes, without sharing."""

    def sizes(self, runner: Runner) -> tuple[int, ...]:
        """Return the batch sizes captured by a runner."""
        return self.captures.get(runner, ())

    def has_graph(self, runner: Runner, batch: int) -> bool:
        """Return whether a stage of a round runs on a graph rather than kernel by kernel."""
        return reach(self.sizes(runner), batch) is not None


def plan_graphs(question: Question) -> Plan:
    """Plan the graphs of an engine."""
    arms = tuple(dict.fromkeys((OFF, *question.arms)))
    captures = _merged(arms, question)
    kept = {runner: list(sizes) for runner, sizes in captures.items()}
    dropped: list[DroppedGraph] = []
    size = question.costs.total(kept)
    budget = math.inf if question.budget is None else question.budget
    for graph in _drop_order(arms, captures, question) if size > budget else ():
        if size <= budget:
            break
        kept[graph.runner].remove(graph.batch)
        dropped.append(graph)
        size = question.costs.total(kept)
    separate = _separate(arms, question)
    single, naive = _unmerged(arms, question, separate)
    return Plan(
        question=question,
        arms=arms,
        captures={runner: tuple(sizes) for runner, sizes in kept.items() if sizes},
        bytes=size,
        dropped=tuple(dropped),
        single=single,
        separate=separate,
        naive=naive,
    )


def _merged(arms: Sequence[Arm], question: Question) -> dict[Runner, tuple[int, ...]]:
    sizes: dict[Runner, set[int]] = {}
    for arm in arms:
        for runner in runners_of(arm):
            sizes.setdefault(runner, set()).update(allowed_sizes(arm, question.max_batch, question.allows))
    return {runner: tuple(sorted(found)) for runner, found in sizes.items() if found}


def _drop_order(arms: Sequence[Arm], captures: Captures, question: Question) -> list[DroppedGraph]:
    """Return all graphs, least useful per freed byte first. A runner's larger batches precede its smaller ones."""
    saves = worth(
        captures, arms, max_batch=question.max_batch, allows=question.allows, layers=question.costs.model.layers
    )
    left = {runner: list(sizes) for runner, sizes in captures.items()}
    order: list[DroppedGraph] = []
    while left:
        freed = {runner: _freed(runner, left, question.costs) for runner in left}

        def rate(runner: Runner, freed: Mapping[Runner, int] = freed) -> tuple[float, Runner]:
            return saves[runner, left[runner][-1]] / max(freed[runner], 1), runner

        runner = min(left, key=rate)
        batch = left[runner].pop()
        order.append(DroppedGraph(runner, batch, saves[runner, batch]))
        if not left[runner]:
            del left[runner]
    return order


def _freed(runner: Runner, left: Mapping[Runner, Sequence[int]], costs: Costs) -> int:
    """Return the bytes freed by dropping the largest batch of a runner."""
    sizes = left[runner]
    below = sizes[-2] if len(sizes) > 1 else None
    own = (
        costs.graph(runner, sizes[-1]) + costs.static(runner, sizes[-1]) - (costs.static(runner, below) if below else 0)
    )
    tops = {other: batches[-1] for other, batches in left.items()}
    before = costs.shared(tops)
    if below:
        tops[runner] = below
    else:
        del tops[runner]
    return own + before - costs.shared(tops)


def _separate(arms: Sequence[Arm], question: Question) -> tuple[int, ...]:
    """Return the batch sizes at which any arm drafts."""
    drafting = [arm for arm in arms if arm != OFF]
    tops = (max(allowed_sizes(arm, question.max_batch, question.allows), default=0) for arm in drafting)
    top = max(tops, default=0)
    return tuple(batch_sizes(top)) if top else ()


def _unmerged(arms: Sequence[Arm], question: Question, sizes: Sequence[int]) -> tuple[int, int]:
    """
    Return the bytes of the most expensive arm, and of all arms without sharing, at every batch size at which any
    drafts.
    """
    costs, off = question.costs, runners_of(OFF)[0]
    plain = costs.total({off: batch_sizes(question.max_batch)})
    drafting = [arm for arm in arms if arm != OFF]
    if not sizes:
        return plain, plain
    alone = [
        costs.total({off: batch_sizes(question.max_batch), **dict.fromkeys(runners_of(arm), sizes)}) for arm in drafting
    ]
    every = [runner for arm in drafting for runner in runners_of(arm)]
    own = costs.runner(off, batch_sizes(question.max_batch)) + sum(costs.runner(runner, sizes) for runner in every)
    return max(alone), own + costs.shared({off: question.max_batch, **dict.fromkeys(every, sizes[-1])})


def launches_s(runner: Runner, layers: int) -> float:
    """Return the seconds to launch one pass of a runner kernel by kernel, for a target with this many layers."""
    drafting = 1 if runner.is_block else runner.steps - 1
    passes = {Stage.VERIFY: layers, Stage.DRAFT: drafting, Stage.EXTEND: 1}[runner.stage]
    return passes * KERNELS_PER_LAYER * LAUNCH_S


def worth(
    captures: Mapping[Runner, Sequence[int]], arms: Sequence[Arm], *, max_batch: int, allows: Allows, layers: int
) -> dict[tuple[Runner, int], float]:
    """Return the expected seconds saved per round by every graph, by runner and batch size."""
    found = {(runner, size): 0.0 for runner, sizes in captures.items() for size in sizes}
    harmonic = sum(1 / batch for batch in range(1, max_batch + 1))
    for batch in range(1, max_batch + 1):
        allowed = [arm for arm in arms if allows(arm, batch)]
        for arm in allowed:
            share = 1 / batch / harmonic / len(allowed)
            for runner in runners_of(arm):
                if (size := reach(captures.get(runner, ()), batch)) is not None:
                    found[runner, size] += share * launches_s(runner, layers)
    return found
