"""Time to first token of requests while responses to announced prompts run ahead, compared to requests without them."""

import asyncio
import random
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

from countdown.deepening import deepened
from countdown.settings import DRAFTER
from tlt_bench.engines.bench_engine import log
from tlt_bench.ratios import Figures
from tlt_bench.workload import hard_prompts
from tlt_common.domain.ids import PolicyVersion, RequestId, WorkerId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_worker.activity import Activity, Tenancy
from tlt_worker.engine.base import EngineInfo
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.requests.ahead import Ahead
from tlt_worker.requests.generation import Generation

REPEATS = 20
CONTEXT = 1088
SIDES = ("alone", "ahead")
LONG, SHORT = (SamplingParams(max_new_tokens=tokens, ignore_eos=True) for tokens in (1000, 2))
LONGEST_PAUSE_S = 1.5
"""Requests come this long after the announcement, at most: also while its prompts are read."""
QUIET_S = 0.7
"""Longer than any round: nothing of a repeat is left in the engine."""


class _Bench:
    """The parts of a worker that requests and announcements pass through, around a real engine that is always lent."""

    def __init__(self, engine: SglangEngine, info: EngineInfo) -> None:
        self.slots, version = info.max_running, PolicyVersion(0)
        self._activity = Activity()
        self._ahead = Ahead(engine, self._activity, places=info.max_running, policy_version=lambda: version)
        self._generation = Generation(
            engine,
            info,
            self._activity,
            worker_id=WorkerId("bench"),
            policy_version=lambda: version,
            make_way=lambda: self._activity.set_tenancy(Tenancy.LEAVING),
        )
        self._numbers = iter(range(10**9))
        self.running = self._ahead.run()

    async def waited_s(self, side: str, count: int, rng: random.Random) -> float:
        """Return the seconds until each of this many concurrent requests has its first token."""
        self._activity.set_tenancy(Tenancy.TRAINING)
        if side == "ahead":
            self._ahead.announce("", self._prompts(self.slots, LONG))
        await asyncio.sleep(rng.uniform(0, LONGEST_PAUSE_S))
        waits = await asyncio.gather(*(self._first_token_s(prompt) for prompt in self._prompts(count, SHORT)))
        self._ahead.announce("", ())
        self._activity.set_tenancy(Tenancy.NONE)
        await asyncio.sleep(QUIET_S)
        return max(waits)

    async def round_s(self, count: int) -> float:
        """Return the median duration of a round of this many requests."""
        at_s = list[float]()
        first, *others = self._prompts(count, SamplingParams(max_new_tokens=120, ignore_eos=True))
        rest = [asyncio.ensure_future(self._first_token_s(prompt)) for prompt in others]
        async for _ in self._generation.generate(first):
            at_s.append(time.monotonic())
        await asyncio.gather(*rest)
        return median(after - before for before, after in pairwise(at_s))

    async def _first_token_s(self, prompt: Prompt) -> float:
        began_s, first_s = time.monotonic(), 0.0
        async for _ in self._generation.generate(prompt):
            first_s = first_s or time.monotonic() - began_s
        return first_s

    def _prompts(self, count: int, sampling: SamplingParams) -> list[Prompt]:
        number = next(self._numbers)
        return [
            Prompt(request_id=RequestId(f"{number}-{place}/0"), token_ids=ids, sampling=sampling)
            for place, ids in enumerate(hard_prompts(count, seed=90_000_000 + number))
        ]


def measure_first_token(*, repeats: int = REPEATS) -> Figures:
    """Return the times to the first token of one request and of a full engine, in milliseconds."""
    return asyncio.run(_measure(repeats, random.Random(0)))


async def _measure(repeats: int, rng: random.Random) -> Figures:
    found = Figures()
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        await deepened(Path(scratch) / "served")
        engine = SglangEngine(Path(scratch) / "served", EngineConfig(drafter=DRAFTER, context_length=CONTEXT))
        bench = _Bench(engine, await engine.start())
        ahead = asyncio.ensure_future(bench.running)
        try:
            sizes = (1, bench.slots)
            for count in sizes:
                found.add(f"round_ms_{count}", [1000 * await bench.round_s(count) for _ in range(3)])
            waits: dict[tuple[str, int], list[float]] = {(side, count): [] for side in SIDES for count in sizes}
            for repeat in range(repeats):
                for side, count in rng.sample(sorted(waits), len(waits)):
                    waits[side, count].append(1000 * await bench.waited_s(side, count, rng))
                if repeat % 5 == 0:
                    log(f"  repeat {repeat} of {repeats}")
        finally:
            ahead.cancel()
            await asyncio.wait([ahead])
            await engine.aclose()
    for (side, count), values in waits.items():
        found.add(f"first_token_ms_{side}_{count}", values)
    return found
