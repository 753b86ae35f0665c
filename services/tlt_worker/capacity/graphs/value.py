"""
The benefit of a graph: seconds of kernel launches saved per round, weighted by the share of rounds that use it.

A graph replaces the launches of its kernels by a single one. Without measurements, every allowed arm is assumed equally
likely, and the number of running requests long-tailed as in rollouts: the time at a batch size of b is proportional to
1 / b.
"""

from collections.abc import Mapping, Sequence

from tlt_common.domain.arm import Arm
from tlt_worker.capacity.graphs.batches import Allows, reach
from tlt_worker.capacity.graphs.runner import Runner, Stage, runners_of

KERNELS_PER_LAYER = 12
LAUNCH_S = 5e-6
"""Seconds per kernel launch by PyTorch on one CPU thread."""


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
