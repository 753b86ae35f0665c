"""The part: every target in a process of its own, so that one that dies or hangs does not end the others."""

import asyncio
import json
import os
from collections.abc import Sequence

from tlt_bench.campaign.fuzz.all_targets import discovered
from tlt_bench.campaign.fuzz.nurseries import Nursery, nurseries
from tlt_bench.campaign.fuzz.target import Target
from tlt_bench.campaign.part import Context, Outcome, Part, Size

INPUTS = {Size.SHORT: 24_000, Size.MIDDLE: 24_000, Size.LONG: 220_000}
"""Above the aims, since a target that is skipped or runs out of time tries fewer."""
MIN_S = 5.0
"""Seconds that every target gets, also if no time is left: starting a service takes some of them."""
HUNG_S = 300.0
"""Seconds after its deadline at which a process counts as hung; reducing a harmful input takes up to five minutes."""


class _Time:
    """
    Divides the time that is left among targets by their weights, as they start.

    Args:
        weight: Sum of the weights of all targets.
        lanes: Processes that run at once.
    """

    def __init__(self, context: Context, weight: float, lanes: int) -> None:
        self._context = context
        self._weight = weight
        self._lanes = lanes

    def share_s(self, target: Target) -> float:
        """Return the seconds of a target that starts now. Those after it share what the others did not use."""
        share = target.weight / max(self._weight, target.weight)
        self._weight -= target.weight
        return max(MIN_S, min(self._context.left_s, self._lanes * self._context.left_s * share))


async def _run(context: Context) -> Outcome:
    targets = [target for target in discovered() if not target.skipped()]
    for target in discovered():
        if reason := target.skipped():
            context.say(f"{target.name} skipped: {reason}")
    total = sum(target.weight for target in targets)
    lanes = len(os.sched_getaffinity(0))
    time = _Time(context, total, lanes)
    counts = {target.name: max(1, round(INPUTS[context.size] * target.weight / total)) for target in targets}
    async with nurseries(context.directory, lanes) as free, asyncio.TaskGroup() as group:
        running = [group.create_task(_searched(context, one, counts[one.name], free, time)) for one in targets]
    results = [task.result() for task in running]
    harm = tuple(one for _, found in results for one in found)
    return Outcome(figures={"inputs_tried": sum(tried for tried, _ in results), "crashes": len(harm)}, findings=harm)


async def _searched(
    context: Context, target: Target, count: int, free: asyncio.Queue[Nursery], time: _Time
) -> tuple[int, Sequence[str]]:
    """Search one target in a process, and say what was found; return the number of inputs, and what did harm."""
    tried, harm = await _result(context, target, count, free, time)
    context.say(f"{target.name}: {tried} inputs, {len(harm)} harmful")
    for one in harm:  # now: a long search may be ended early
        context.say(one)
    return tried, harm


async def _result(
    context: Context, target: Target, count: int, free: asyncio.Queue[Nursery], time: _Time
) -> tuple[int, Sequence[str]]:
    nursery = await free.get()
    try:
        share_s = time.share_s(target)
        arguments = (target.name, str(count), str(context.seed), f"{share_s:.1f}")
        command = f"python -m tlt_bench.campaign.fuzz.child {' '.join(arguments)}"
        try:
            async with asyncio.timeout(share_s + HUNG_S):
                ended = await nursery.run(arguments)
        except TimeoutError:
            return 0, [f"{target.name}: the process hung; command: {command}"]
    finally:
        free.put_nowait(nursery)
    if ended.code != 0:
        said = ended.errors.strip().rpartition("\n")[2]
        return 0, [f"{target.name}: the process ended with {ended.code}: {said}; command: {command}"]
    found = json.loads(ended.output.splitlines()[-1])
    return found["tried"], found["harm"]


PART = Part(
    name="fuzz",
    summary="random messages, bytes, configuration and files for everything that reads input",
    weight=2.0,
    run=_run,
)
