"""Measures a neighbor of a suite whose spot trainers run in their own sessions, and of one whose trainers do not."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from countdown.coordinator import fleet_at, lend
from countdown.deepening import deepened
from tlt_bench.engines.bench_engine import log, rotated
from tlt_bench.neighbor.programs import busy_loop, of_suite, rates, sleep_3_s
from tlt_bench.ratios import Figures
from tlt_bench.result import Result
from tlt_bench.scratch import scratch
from tlt_common.client import Client
from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.prompt import SamplingParams
from tlt_common.errors import UnavailableError
from tlt_local.configuration.config import StackConfig
from tlt_local.stack import Stack

WORKERS = 2
SIDES = {"": "true", "_shared_session": "false"}
"""Value of `trainer.own_session` by suffix of the figures."""
PROMPTS, PROMPT_TOKENS, RESPONSE_TOKENS = 24, 32, 160
"""What the trainers learn from; random tokens, since nothing depends on what is learned."""
CONTEXT_TOKENS = 512
TRAINING_S = 180.0
"""Time limit for all trainers to hold a lease and to have data."""
SETTLED_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighborPlan:
    """Amount of measurement."""

    starts: int
    """Number of starts of each suite."""
    turns: int
    """Number of turns per start."""
    turn_s: float


FULL = NeighborPlan(starts=2, turns=4, turn_s=15.0)
QUICK = NeighborPlan(starts=1, turns=3, turn_s=10.0)


def measure(model: Path | None, plan: NeighborPlan) -> Result:
    """
    Run the benchmark and return its figures. Progress goes to stderr.

    Raises:
        TltError: The suite did not start, or its trainers did not train.
    """
    found: dict[str, list[float]] = defaultdict(list)
    with scratch() as directory:
        asyncio.run(_measure(found, directory, model, plan))
    figures = figures_of(found)
    return figures.result("neighbor", repeats=plan.starts * plan.turns)


def figures_of(found: Mapping[str, Sequence[float]]) -> Figures:
    """Return the figures, given the values of all turns by name."""
    figures = Figures()
    for name, values in sorted(found.items()):
        figures.add(name, values)
    figures.notes |= {
        "neighbor_share": f"share of a core that a busy loop in another session gets while {WORKERS} trainers train; "
        "_shared_session: with trainer.own_session false; _alone: while the suite is idle",
        "sleep_3_s": "seconds that `sleep 3` takes in another session, beside the trainers and the loop",
        "trainer_cores": "cores that the suite uses meanwhile",
        "idle_suite_cores": "cores that all processes of the suite use while it has nothing to do; idle_wakeups_per_s: "
        "how often per second their threads get a core",
    }
    return figures


async def _measure(found: dict[str, list[float]], directory: Path, model: Path | None, plan: NeighborPlan) -> None:
    if model is None:
        model = directory / "model"
        await deepened(model)
    for start in range(plan.starts):
        for suffix in rotated(tuple(SIDES), start):
            log(f"start {start + 1} of {plan.starts}, trainer.own_session {SIDES[suffix]}")
            async with Stack(suite(model, SIDES[suffix]), say=log) as stack:
                await _beside(stack, found, suffix, plan)


def suite(model: Path, own_session: str) -> StackConfig:
    """Return a suite whose trainers always have something to learn."""
    return StackConfig(
        model=model,
        workers=WORKERS,
        cores_per_worker=1,
        settings={
            "worker": {"engine.context_length": str(CONTEXT_TOKENS)},
            # It neither rests nor publishes: nothing but training is measured.
            "trainer": {"own_session": own_session, "pay.evaluations": "null", "publish.first_gain": "1000"},
            "coordinator": {"lending": "false"},
        },
    )


async def _beside(stack: Stack, found: dict[str, list[float]], suffix: str, plan: NeighborPlan) -> None:
    """Add the figures of one suite."""
    async with Client(stack.endpoint) as client:
        vocabulary, rng = (await client.info()).vocab_size, random.Random(0)
        prompts = [[rng.randrange(vocabulary) for _ in range(PROMPT_TOKENS)] for _ in range(PROMPTS)]
        sampling = SamplingParams(max_new_tokens=RESPONSE_TOKENS, ignore_eos=True)
        await client.batch(prompts, samples=1, sampling=sampling)
    await asyncio.sleep(SETTLED_S)
    pids = of_suite(stack.token)
    for _ in range(plan.turns):
        cores, wakeups = await asyncio.to_thread(rates, pids, plan.turn_s)
        found["idle_suite_cores"].append(cores)
        found["idle_wakeups_per_s"].append(wakeups)
        found["neighbor_share_alone"].append(await _neighbor(found, "", plan, stack=None))
    await lend(stack.coordinator, enabled=True)
    await _until_training(stack)
    for turn in range(plan.turns):
        found[f"neighbor_share{suffix}"].append(await _neighbor(found, suffix, plan, stack))
        log(f"  turn {turn + 1} of {plan.turns}: {found[f'neighbor_share{suffix}'][-1]:.3f} of a core")
    await _until_training(stack)


async def _neighbor(found: dict[str, list[float]], suffix: str, plan: NeighborPlan, stack: Stack | None) -> float:
    """Return the share of a core that a busy loop gets. For a suite whose trainers run, also time `sleep 3`."""
    with busy_loop() as pids:
        await asyncio.sleep(1.0)
        suite = frozenset[int]() if stack is None else of_suite(stack.token)
        loop, trainers = await asyncio.gather(
            asyncio.to_thread(rates, pids, plan.turn_s), asyncio.to_thread(rates, suite, plan.turn_s)
        )
        if stack is not None:
            found[f"sleep_3_s{suffix}"].append(await asyncio.to_thread(sleep_3_s))
            found[f"trainer_cores{suffix}"].append(trainers[0])
    return loop[0]


async def _until_training(stack: Stack) -> None:
    """
    Wait until all workers train.

    Raises:
        UnavailableError: They do not train in time.
    """
    try:
        async with asyncio.timeout(TRAINING_S):
            while True:
                fleet = await fleet_at(stack.coordinator)
                if all(worker.status.state is WorkerState.TRAINING for worker in fleet.workers):
                    return
                await asyncio.sleep(1.0)
    except TimeoutError:
        states = {worker.hello.worker_id: worker.standing or worker.status.state for worker in fleet.workers}
        raise UnavailableError(f"not all trainers train within {TRAINING_S:g} s: {states}") from None
