"""A made-up comparison, shaped like a simulated one."""

from random import Random

from tlt_common.domain.fleet import WorkerState
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.model import CostModel
from tlt_simulator.costs.uncertainty import Range
from tlt_simulator.report.findings import Findings, PublishedRow
from tlt_simulator.report.interval import ResultInterval
from tlt_simulator.report.sensitivity import Sensitivity, Swing
from tlt_simulator.report.what_to_set import TriedValue, WhatToSet
from tlt_simulator.result import Comparison, SimulatedRun, StateTurn, StepRun
from tlt_simulator.scenario import RlTrainer, RolloutFleet, Scenario
from tlt_simulator.sweep.outcomes import SideOutcome, SweepOutcome
from tlt_simulator.trace import RunTrace, TraceSample, TraceStep

CAP = 8192


def figure(value: float, source: Source = Source.ASSUMED, *, sure: bool = False, of: str = "") -> CostFigure:
    if sure:
        return CostFigure(value=value, source=source, of=of)
    return CostFigure(value=value, low=0.8 * value, high=min(1.2 * value, max(value, 1.0)), source=source, of=of)


def costs() -> CostModel:
    return CostModel(
        device="H100",
        model="7B",
        round_fixed_s=figure(1.5e-3, Source.MEASURED, sure=True, of="<a benchmark>"),
        round_read_s=figure(5e-3, Source.CALCULATED),
        round_token_s=figure(2e-5, Source.CALCULATED),
        kv_token_s=figure(2e-8, Source.CALCULATED, sure=True),
        draft_fixed_s=figure(3e-4),
        draft_token_s=figure(2e-6, sure=True),
        prefill_token_s=figure(3e-5, Source.CALCULATED, sure=True),
        accept_start=figure(0.5, Source.PUBLISHED),
        accept_best=figure(0.85, Source.PUBLISHED, sure=True),
        accept_decay=figure(0.97, sure=True),
        ngram_accept=figure(0.3),
        learn_tokens_s=figure(20_000, Source.FITTED),
        learn_half_tokens=figure(500_000),
        ageing=figure(0.002),
        lease_start_s=figure(0.5, sure=True),
        lease_stop_s=figure(0.1, sure=True),
        drafter_load_s=figure(0.05, sure=True),
        update_s=figure(3.0, sure=True),
    )


def scenario(workers: int = 4, *, gpus: int = 1, seed: int = 0, name: str = "made up") -> Scenario:
    return Scenario(
        name=name,
        fleet=RolloutFleet(workers=workers, gpus=gpus, slots=64, kv_room=400_000),
        trainer=RlTrainer(learn_s=figure(20.0, sure=True)),
        costs=costs(),
        seed=seed,
    )


def trace(steps: int = 6, prompts: int = 8, samples: int = 4, *, seed: int = 0, measured: bool = True) -> RunTrace:
    rng = Random(seed)
    return RunTrace(
        source="made-up.jsonl",
        steps=tuple(
            TraceStep(
                samples=tuple(
                    TraceSample(prompt=step * prompts + prompt, prompt_tokens=100, tokens=tokens, ends=tokens < CAP)
                    for prompt in range(prompts)
                    for _ in range(samples)
                    for tokens in [min(CAP, 20 + int(rng.lognormvariate(5.5, 0.9)))]
                ),
                rollout_s=60.0 if measured else None,
            )
            for step in range(steps)
        ),
        cap=CAP,
        notes=("the trace says nothing of prompts",),
    )


def comparison(workers: int = 4, steps: int = 6, *, gpus: int = 1) -> Comparison:
    return Comparison(
        scenario=scenario(workers, gpus=gpus),
        source="made-up.jsonl",
        without=_run(workers, gpus, steps, with_suite=False),
        with_suite=_run(workers, gpus, steps, with_suite=True),
        notes=("one seed",),
    )


def _run(workers: int, gpus: int, steps: int, *, with_suite: bool) -> SimulatedRun:
    rng, at_s = Random(1), 0.0
    made, turns, publications = [], [], []
    for number in range(1, steps + 1):
        rollout_s = (50.0 + rng.uniform(-8, 8)) * ((0.9 if number == 1 else 0.6) if with_suite else 1.0)
        ends = sorted(rng.uniform(0.3, 1.0) for _ in range(workers))
        ends[-1] = 1.0
        step_turns, by_state = [], dict[str, float]()

        def spend(state: str, seconds: float, into: dict[str, float] = by_state) -> None:
            into[state] = into.get(state, 0.0) + seconds * gpus

        learn_s, update_s = 20.0, 3.0
        seconds = rollout_s + learn_s + update_s
        for worker, end in enumerate(ends):
            step_turns.append(StateTurn(at_s, worker, WorkerState.ROLLOUT))
            spend(WorkerState.ROLLOUT, end * rollout_s)
            free = WorkerState.TRAINING if with_suite and worker < workers // 2 else WorkerState.IDLE
            if end < 1.0:
                step_turns.append(StateTurn(at_s + end * rollout_s, worker, free))
                spend(free, (1 - end) * rollout_s)
            step_turns.append(StateTurn(at_s + rollout_s, worker, WorkerState.TRAINER))
            spend(WorkerState.TRAINER, learn_s)
            step_turns.append(StateTurn(at_s + rollout_s + learn_s, worker, WorkerState.UPDATING))
            spend(WorkerState.UPDATING, update_s)
        rounds = 10_000 / (1.0 if not with_suite else 2.0 + 2.0 * number / steps)
        made.append(
            StepRun(
                number=number, began_s=at_s, rollout_s=rollout_s, waited_s=rollout_s, learn_s=learn_s,
                update_s=update_s, tail_s=0.4 * rollout_s, responses=32, tokens=10_000, generated=10_000.0,
                rounds=rounds, staleness=0.0, max_staleness=0, drafter=number if with_suite else 0,
                quality=0.6 if with_suite else 0.0, by_state=by_state,
            )
        )  # fmt: skip
        turns.append(tuple(sorted(step_turns, key=lambda turn: turn.at_s)))
        if with_suite:
            publications.append((at_s + 0.7 * rollout_s, number, 0.6))
        at_s += seconds
    return SimulatedRun(
        steps=tuple(made), turns=tuple(turns), publications=tuple(publications), events=9000, wall_s=0.1
    )


def outcome(seconds: float, without_s: float = 100.0) -> SweepOutcome:
    def side(value: float) -> SideOutcome:
        return SideOutcome(
            seconds=value, rollout_s=0.7 * value, bubble_utilisation=0.4, accept_length=3.0, drafters=5,
            events=100,
        )  # fmt: skip

    return SweepOutcome(without=side(without_s), with_suite=side(seconds))


def findings(workers: int = 4, steps: int = 6, *, gpus: int = 1) -> Findings:
    """Everything that a report can have."""
    swings = (
        Swing(name="tail", what="tail", low="x 0.7", high="x 1.3", at_low=outcome(70), at_high=outcome(45)),
        Swing(name="fleet", what="fleet", low="2", high="8", at_low=outcome(50), at_high=outcome(62)),
        Swing(name="costs.ageing", what="costs.ageing (assumed)", low="0.001", high="0.003", at_low=outcome(58),
              at_high=outcome(60)),
    )  # fmt: skip
    return Findings(
        comparison=comparison(workers, steps, gpus=gpus),
        responses=32 * steps,
        published=(PublishedRow(what="7B, 1 node", published=1.21, simulated=1.30),),
        sensitivity=Sensitivity(steps="4 of 6 steps, at equal distances", base=outcome(60), swings=swings),
        interval=ResultInterval(
            draws=40,
            steps="4 of 6 steps, at equal distances",
            varied={"assumed": 4, "published": 1},
            speedup=Range(low=1.2, middle=1.5, high=1.8),
            rollout_speedup=Range(low=1.4, middle=1.7, high=2.1),
            seconds=Range(low=300.0, middle=327.0, high=400.0),
        ),
        what_to_set=WhatToSet(
            steps="4 of 6 steps, at equal distances",
            seeds=3,
            tried=(
                TriedValue(key="gateway.pack_running", value="2", gain=0.03, is_beyond_noise=True),
                TriedValue(key="spot.max_trainers", value="1", gain=-0.01, is_beyond_noise=False),
            ),
            chosen={"gateway.pack_running": "2"},
            gain=0.03,
        ),
        notes=("the trace says nothing of prompts",),
    )
