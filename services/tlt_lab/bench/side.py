"""
One side of a bench: an engine in a process of its own, told what to do by JSON lines.

SGLang keeps its configuration in globals, so that two engines cannot share a process. Run by `sides.Side`; one order
per line on stdin, one answer per line on stdout. Ends, and its engine with it, when stdin does.
"""

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import TextIO

from pydantic import TypeAdapter

from tlt_common.config.base import Frozen
from tlt_common.domain.ids import DrafterVersion, RequestId
from tlt_common.domain.rollout import Prompt, SamplingParams
from tlt_common.domain.strategy import arm_named
from tlt_common.errors import TltError
from tlt_lab.bench.course import Course
from tlt_lab.bench.order import Ask, Count, Counted, Done, Failed, Force, Renew, Start, Told
from tlt_worker.engine.launch import EngineOptions
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine.stock import StockEngine
from tlt_worker.engine.switching import REPORT_S

Order = Start | Force | Renew | Ask | Count
ORDERS: TypeAdapter[Order] = TypeAdapter(Order)


class Host:
    """Carries out orders with the engine it started."""

    def __init__(self) -> None:
        self._engine: SglangEngine | None = None
        self._asked = 0
        self._drafter = DrafterVersion(1)
        self._counted = Counted()
        self._is_started = asyncio.Event()

    async def obey(self, order: Order) -> Frozen:
        """
        Carry out one order and return its answer.

        Raises:
            TltError: The engine could not.
        """
        match order:
            case Start():
                return await self._start(order)
            case Force():
                self._need().force_arms(*order.arms)
                return Done()
            case Renew():
                return await self._renew()
            case Ask():
                return await self._ask(order)
            case Count():
                return await self._count()

    async def add_up(self) -> None:
        """Sum over the engine's reports, for ever."""
        await self._is_started.wait()
        async for report in self._need().reports():
            self._counted = Counted(
                switches=self._counted.switches + report.switches,
                recomputed_tokens=self._counted.recomputed_tokens + report.recomputed_tokens,
                caught_up_tokens=self._counted.caught_up_tokens + report.caught_up_tokens,
            )

    async def close(self) -> None:
        """End the engine."""
        if self._engine is not None:
            await self._engine.aclose()

    async def _start(self, order: Start) -> Done:
        options = EngineOptions(
            model=Path(order.model),
            drafter=Path(order.drafter) if order.drafter else None,
            max_running=order.max_running,
            context_length=order.context_length,
            arms=tuple(map(arm_named, order.arms)),
            simulated_accept_length=order.simulated_accept_length,
            trace=Path(order.trace) if order.trace else None,
        )
        self._engine = StockEngine(options) if order.stock else SglangEngine(options)
        info = await self._engine.start()
        self._is_started.set()
        return Done(detail=info.device)

    async def _renew(self) -> Done:
        engine = self._need()
        assert engine.options.drafter is not None, "only a drafter there is can be renewed"  # noqa: S101 - a bug
        self._drafter = DrafterVersion(self._drafter + 1)
        await engine.load_drafter(engine.options.drafter, self._drafter)
        return Done()

    async def _ask(self, order: Ask) -> Told:
        self._asked += 1
        engine = self._need()
        course = Course(turns=order.turns, force=engine.force_arms, pids=(os.getpid(), *engine.child_pids))
        names = order.names or tuple(f"{self._asked}-{place}/0" for place in range(len(order.prompts)))
        asked = zip(names, order.prompts, order.max_new_tokens, strict=True)
        tracks = [
            course.track(
                Prompt(
                    request_id=RequestId(name),
                    token_ids=ids,
                    sampling=SamplingParams(temperature=order.temperature, max_new_tokens=most, ignore_eos=True),
                    capture=False,
                ),
                most,
            )
            for name, ids, most in asked
        ]
        await asyncio.gather(*(course.follow(track, engine.generate(track.prompt)) for track in tracks))
        return course.told()

    async def _count(self) -> Counted:
        # Rounds are reported together, by the first that ends REPORT_S after the last report.
        await asyncio.sleep(REPORT_S)
        await self._ask(Ask(prompts=((1,),), max_new_tokens=(3,)))
        await asyncio.sleep(REPORT_S)
        counted, self._counted = self._counted, Counted()
        return counted

    def _need(self) -> SglangEngine:
        assert self._engine is not None, "the first order is Start"  # noqa: S101 - a bug of the bench
        return self._engine


async def serve(answers: TextIO) -> None:
    """Read orders until there are no more; the end of stdin also ends what runs."""
    host, orders = Host(), Orders(asyncio.get_running_loop())
    async with asyncio.TaskGroup() as parts:
        work = parts.create_task(_carry_out(host, orders.lines, answers), name="orders")
        reports = parts.create_task(host.add_up(), name="reports")
        try:
            await orders.ended.wait()
        finally:
            work.cancel()
            reports.cancel()
            await host.close()


class Orders:
    """Lines of stdin. The thread is a daemon: one that waits for a line must not keep a failed process alive."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.lines: asyncio.Queue[str] = asyncio.Queue()
        self.ended = asyncio.Event()
        self._loop = loop
        threading.Thread(target=self._read, name="orders", daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._loop.call_soon_threadsafe(self.lines.put_nowait, line)
        self._loop.call_soon_threadsafe(self.ended.set)


async def _carry_out(host: Host, orders: asyncio.Queue[str], answers: TextIO) -> None:
    while True:
        order = ORDERS.validate_json(await orders.get())
        try:
            answer = await host.obey(order)
        except TltError as error:
            answer = Failed(error=error.message)
        answers.write(answer.model_dump_json() + "\n")
        answers.flush()


if __name__ == "__main__":
    # What SGLang prints must not mix with answers.
    answers_to = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asyncio.run(serve(answers_to))
