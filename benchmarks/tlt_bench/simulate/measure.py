"""
Compares a simulated run to the real run.

Gateway, coordinator and four workers are the product's, in real time and over gRPC; engines and trainers are scripted.
The same lengths are simulated with the script's costs.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import pairwise
from math import exp
from pathlib import Path
from statistics import fmean

import torch
from safetensors.torch import save_file

from countdown.coordinator import fleet_at
from tlt_bench.engines.bench_engine import log
from tlt_bench.ratios import Figures, over
from tlt_bench.result import Result
from tlt_bench.simulate.fleet import SPOT, WORKERS, fleet
from tlt_bench.simulate.scripted import CHUNK, REQUEST_S, ROUND_S, SLOTS, START_S, STOP_S, UPDATE_S
from tlt_bench.simulated_engine import SHAPE, TENSOR
from tlt_common.client.rollout import Client
from tlt_common.domain.fleet import WorkerAccount, WorkerState
from tlt_common.domain.prompt import SamplingParams
from tlt_common.telemetry.log import configure
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.model import CostModel
from tlt_simulator.result import SimulatedRun
from tlt_simulator.run import simulate
from tlt_simulator.scenario import RlTrainer, RolloutFleet, Scenario, SuiteKeys
from tlt_simulator.trace import TraceSample, TraceStep

STEPS, QUICK_STEPS = 16, 6
PROMPTS, GROUP = 8, 4
MEDIAN, SPREAD, CAP = 60.0, 0.8, 600
LEARN_S = 0.8
WARM_STEPS = 2
"""Steps at the beginning that are not compared: connections are made, and nothing is known of lengths."""
SLICE_S = 0.02
LENT = {WorkerState.TRAINING, WorkerState.SWITCHING}


@dataclass(frozen=True, slots=True)
class Seen:
    """A step: its start, the end of its last response, and each worker's changes of state, in Unix seconds."""

    began_s: float
    ended_s: float


def measure(*, quick: bool = False) -> Result:
    """Run the benchmark and return its figures. Progress goes to stderr."""
    configure("error")
    steps = _steps(QUICK_STEPS if quick else STEPS)
    seen, accounts = asyncio.run(_real(steps))
    run = simulate(steps, _scenario())
    found = Figures()
    real_s, said_s = [one.ended_s - one.began_s for one in seen], [step.rollout_s for step in run.steps]
    ratios = over(said_s[WARM_STEPS:], real_s[WARM_STEPS:])
    found.add("rollout_ratio", ratios, "simulated ÷ real seconds of a rollout")
    found.add("rollout_error", [fmean(abs(ratio - 1.0) for ratio in ratios)], "mean of the distance from 1")
    agreements = [_agreement(step, number, accounts, run) for number, step in enumerate(seen)][WARM_STEPS:]
    found.add("lent_agreement", agreements, "1 - mean difference in lent workers, at each moment of a step ÷ workers")
    real_lent, said_lent = _lent(seen, accounts), _said_lent(run)
    found.add("lent_ratio", [said_lent / real_lent], "device-seconds lent, simulated ÷ real")
    log(f"  {real_lent:.1f} device-seconds were lent, {said_lent:.1f} simulated")
    found.notes["fleet"] = f"{WORKERS} workers of {SLOTS} slots; {PROMPTS} prompts of {GROUP}, at most {CAP} tokens"
    return found.result("simulate", repeats=len(ratios))


def _steps(count: int) -> tuple[TraceStep, ...]:
    chance = random.Random(0)
    return tuple(
        TraceStep(
            samples=tuple(
                TraceSample(prompt=prompt, prompt_tokens=4, tokens=_length(level, chance))
                for prompt in range(PROMPTS)
                for level in (chance.gauss(0.0, SPREAD / 2.0),)
                for _ in range(GROUP)
            )
        )
        for _ in range(count)
    )


def _length(level: float, chance: random.Random) -> int:
    return max(1, min(CAP, round(MEDIAN * exp(level + chance.gauss(0.0, SPREAD)))))


def _scenario() -> Scenario:
    def known(value: float) -> CostFigure:
        return CostFigure(value=value, source=Source.MEASURED, of="the script")

    nothing = known(0.0)
    costs = CostModel(
        device="scripted",
        model="none",
        round_fixed_s=known(ROUND_S / CHUNK),
        round_request_s=known(REQUEST_S / CHUNK),
        round_read_s=nothing,
        round_token_s=nothing,
        kv_token_s=nothing,
        draft_fixed_s=nothing,
        draft_token_s=nothing,
        prefill_token_s=nothing,
        accept_start=nothing,
        accept_best=nothing,
        accept_decay=nothing,
        ngram_accept=nothing,
        learn_tokens_s=known(1e-6),
        learn_half_tokens=known(1.0),
        ageing=nothing,
        lease_start_s=known(START_S),
        lease_stop_s=known(STOP_S),
        drafter_load_s=nothing,
        update_s=known(UPDATE_S),
    )
    return Scenario(
        name="scripted",
        fleet=RolloutFleet(workers=WORKERS, slots=SLOTS, kv_room=10**9),
        trainer=RlTrainer(learn_s=known(LEARN_S), colocated=False),
        costs=costs,
        suite=SuiteKeys(speculation=False, spot=SPOT),
    )


async def _real(steps: Sequence[TraceStep]) -> tuple[list[Seen], tuple[WorkerAccount, ...]]:
    async with AsyncExitStack() as parts:
        scratch = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="tlt-bench-")))
        save_file({TENSOR: torch.zeros(SHAPE)}, scratch / "model.safetensors", {"format": "pt"})
        gateway, coordinator = await parts.enter_async_context(fleet(scratch))
        client = await parts.enter_async_context(Client(gateway))
        await client.wait_ready(60.0, workers=WORKERS)
        seen = list[Seen]()
        for number, step in enumerate(steps, 1):
            began_s = time.time()
            await asyncio.gather(*(_response(client, sample) for sample in step.samples))
            seen.append(Seen(began_s, time.time()))
            log(f"  step {number}: {seen[-1].ended_s - began_s:.2f} s")
            await asyncio.sleep(LEARN_S)
            await client.publish_weights(number, scratch)
        return seen, (await fleet_at(coordinator)).workers


async def _response(client: Client, sample: TraceSample) -> None:
    prompt = (1 + sample.prompt, 2, 3, 4)
    await client.generate(prompt, SamplingParams(max_new_tokens=sample.tokens))


def _agreement(seen: Seen, number: int, accounts: Sequence[WorkerAccount], run: SimulatedRun) -> float:
    """Compare the numbers of lent workers from the start of a step to the end of learning."""
    step = run.steps[number]
    span_s = min(seen.ended_s - seen.began_s, step.rollout_s) + LEARN_S
    differences = list[int]()
    for place in range(int(span_s / SLICE_S)):
        after_s = (place + 0.5) * SLICE_S
        real = sum(_state_at(account, seen.began_s + after_s) in LENT for account in accounts)
        differences.append(abs(real - _said_at(run, number, step.began_s + after_s)))
    return 1.0 - fmean(differences) / WORKERS


def _state_at(account: WorkerAccount, at_s: float) -> WorkerState:
    state = WorkerState.DOWN
    for change in account.timeline:
        if change.at_unix_s > at_s:
            break
        state = change.state
    return state


def _said_at(run: SimulatedRun, number: int, at_s: float) -> int:
    states = dict[int, str]()
    for turn in run.turns[number]:
        if turn.at_s > at_s:
            break
        states[turn.worker] = turn.state
    return sum(state in LENT for state in states.values())


def _lent(seen: Sequence[Seen], accounts: Sequence[WorkerAccount]) -> float:
    from_s, to_s, total = seen[WARM_STEPS].began_s, seen[-1].ended_s, 0.0
    for account in accounts:
        changes = [*((change.at_unix_s, change.state) for change in account.timeline), (to_s, WorkerState.DOWN)]
        for (begun_s, state), (over_s, _) in pairwise(changes):
            if state in LENT:
                total += max(0.0, min(over_s, to_s) - max(begun_s, from_s))
    return total


def _said_lent(run: SimulatedRun) -> float:
    from_s, last = run.steps[WARM_STEPS].began_s, run.steps[-1]
    to_s = last.began_s + last.rollout_s
    turns = [turn for step in run.turns for turn in step]
    total, since = 0.0, dict[int, float]()
    for turn in sorted(turns, key=lambda one: one.at_s):
        if (begun_s := since.pop(turn.worker, None)) is not None:
            total += max(0.0, min(turn.at_s, to_s) - max(begun_s, from_s))
        if turn.state in LENT:
            since[turn.worker] = turn.at_s
    return total + sum(max(0.0, to_s - max(begun_s, from_s)) for begun_s in since.values())
