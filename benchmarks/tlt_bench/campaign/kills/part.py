"""The part `kills`."""

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass, field

from tlt_bench.campaign.figures import SHARED
from tlt_bench.campaign.kills.plan import Queue, Strike
from tlt_bench.campaign.kills.striking import Striker
from tlt_bench.campaign.kills.targets import Action
from tlt_bench.campaign.part import Context, Outcome, Part, Size
from tlt_bench.campaign.suite.ordeal import Ordeal, undergo
from tlt_bench.campaign.suite.suite import running

GAP_S = {Size.SHORT: 2.0, Size.MIDDLE: 3.0, Size.LONG: 6.0}
"""Seconds between the beginnings of two strikes, if targets are left that nothing disturbs."""


async def run(context: Context) -> Outcome:
    """
    Strike the parts of a suite in a random order.

    Raises:
        TltError: The suite did not start, or failed as a whole.
    """
    kills = Kills(context)
    figures, chronicle = await undergo(context, running(context.directory / "run", seed=context.seed), kills.make)
    figures |= {"kills": kills.made, "not_back": kills.not_back}
    if kills.stalls_s:
        figures["stall_detect_s"] = max(kills.stalls_s)
    return Outcome(figures=figures, findings=tuple(chronicle.findings))


@dataclass(slots=True)
class Kills:
    """
    Executes the strikes of a plan until the deadline, several at a time in different groups.

    It starts at least as many as the target, even if the engines took long to start.
    """

    context: Context
    made: int = 0
    not_back: int = 0
    stalls_s: list[float] = field(default_factory=list)
    _begun: int = 0
    _disturbed: set[str] = field(default_factory=set)
    """Groups that are currently disturbed."""
    _measured: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no measurement is in progress."""

    async def make(self, ordeal: Ordeal) -> None:
        """Strike until the deadline; return when everything has recovered."""
        queue = Queue(self.context.seed)
        striker = Striker(ordeal.suite, ordeal.load, seed=self.context.seed)
        async with asyncio.TaskGroup() as group:
            least = SHARED["kills"].aim_at_least(self.context.size)
            while self.context.left_s > 0 or self._begun < least:
                if strike := queue.take(self._disturbed):
                    if strike.is_measured:
                        await self._until_undisturbed()
                    self._measured.clear()
                    self._begun += 1
                    self._disturbed.add(strike.target.group)
                    group.create_task(self._one(strike, striker, ordeal), name=str(strike))
                    if strike.is_measured:
                        await self._measured.wait()
                await asyncio.sleep(GAP_S[self.context.size])
        ordeal.chronicle.note(f"{self.made} strikes")

    async def _one(self, strike: Strike, striker: Striker, ordeal: Ordeal) -> None:
        ordeal.chronicle.note(str(strike))
        with ExitStack() as excused:
            if strike.action is not Action.TERM:
                excused.enter_context(ordeal.http.killing(strike.target.name))
            await self._struck(strike, striker, ordeal)

    async def _struck(self, strike: Strike, striker: Striker, ordeal: Ordeal) -> None:
        try:
            stall_s = await striker.strike(strike)
        except LookupError:
            ordeal.chronicle.note(f"{strike} not possible: there is none at the moment")
        else:
            self.made += 1
            if stall_s is not None:
                self.stalls_s.append(stall_s)
                ordeal.chronicle.note(f"requests of the stopped engine moved after {stall_s:.1f} s")
        finally:
            self._measured.set()
        if not await striker.until_back(strike.target):
            self.not_back += 1
            ordeal.chronicle.find(f"{strike.target.name} did not come back after {strike}")
        ordeal.chronicle.note(f"{strike.target.name} is back")
        self._disturbed.discard(strike.target.group)

    async def _until_undisturbed(self) -> None:
        while self._disturbed:  # noqa: ASYNC110 - the tasks are owned by another group
            await asyncio.sleep(GAP_S[self.context.size])


PART = Part(
    name="kills",
    summary="kill, stop and terminate every kind of process, and cut connections, under load and weight updates",
    weight=6.0,
    run=run,
)
