"""`tlt bench train --trainers`."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from countdown.task import DEFAULT_MIX
from tlt_bench.adapt.course import DRAFTS
from tlt_bench.adapt.data import SCORED_TOKENS, Frames, Policy, packs
from tlt_bench.demo_learner import demo_learner
from tlt_bench.engines.bench_engine import log
from tlt_bench.ratios import Figures, over
from tlt_bench.result import Result
from tlt_bench.train.together.asynchronous import Asynchronous
from tlt_bench.train.together.member import RESTLESS, STEADY, Behaviour, TrainingMember
from tlt_bench.train.together.outer import outer
from tlt_bench.train.together.scaling import samples_per_s
from tlt_bench.train.together.synchronous import synchronous
from tlt_bench.train.together.way import Journey, Point, Way, Weights, between
from tlt_common.domain.ids import DrafterVersion
from tlt_trainer.drafter.score import score_of
from tlt_trainer.learned import Snapshot

WAYS: Mapping[str, Way] = {
    "": Asynchronous(),
    "_mean": Asynchronous(mean=True),
    "_synchronous": synchronous,
    "_outer": outer,
}
"""The product's way first; names are the suffixes of its figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSize:
    """How much is measured."""

    repeats: int
    prompts: int
    trainers: tuple[int, ...]
    before_tokens: int
    """Tokens that one learner sees before it is handed to all trainers: they continue a drafter."""
    tokens: int
    """Tokens that all trainers see together."""
    points: int
    """Scores on the way."""
    scaling_s: float


FULL = RunSize(repeats=3, prompts=96, trainers=(2, 4, 8), before_tokens=40_000, tokens=60_000, points=8, scaling_s=10.0)
QUICK = RunSize(repeats=1, prompts=16, trainers=(4,), before_tokens=16_000, tokens=33_000, points=4, scaling_s=4.0)


def measure(*, quick: bool) -> Result:
    """Run the benchmark and return its figures. Progress goes to stderr."""
    size, found = QUICK if quick else FULL, Figures()
    torch.set_num_threads(1)
    policy = Policy()
    log(f"sampling {3 * size.prompts} responses to {size.prompts} prompts")
    frames = policy.frames(DEFAULT_MIX, prompts=size.prompts, samples=3, seed=10_000_000)
    held_out = policy.frames(DEFAULT_MIX, prompts=16, samples=1, seed=20_000_000)
    _compare(found, size, frames, held_out)
    _scale(found, size)
    return Result(
        name="train_together", figures=found.figures, spread=found.spread, repeats=size.repeats, notes=found.notes
    )


def _scale(found: Figures, size: RunSize) -> None:
    rates: dict[int, list[float]] = {count: [] for count in (1, 2, 4)}
    for _ in range(size.repeats):
        for count, values in rates.items():
            values.append(samples_per_s(count, seconds=size.scaling_s))
            log(f"{count} processes: {values[-1]:.0f} samples per second")
    for count in (2, 4):
        found.add(f"scaling_{count}", over(rates[count], rates[1]), f"{count} processes with a thread each, ÷ one")


def _compare(found: Figures, size: RunSize, frames: Frames, held_out: Frames) -> None:
    per_token: dict[str, list[float]] = {}
    per_second: dict[str, list[float]] = {}
    for repeat in range(size.repeats):
        first = TrainingMember(frames, STEADY, None, seed=1000 * repeat)
        first.train(size.before_tokens)
        learner = first.learner
        learner.settle(DrafterVersion(1), learner.weights(), learner.counters)
        start = learner.snapshot()
        alone = _run("alone", Asynchronous(), [STEADY], size, frames, held_out, start, repeat)
        fleets = {str(count): [STEADY] * count for count in size.trainers} | {"restless": RESTLESS}
        for name, behaviours in fleets.items():
            for suffix, way in WAYS.items():
                points = _run(f"{name}{suffix}", way, behaviours, size, frames, held_out, start, repeat)
                tokens, seconds = _compared(points, alone)
                per_token.setdefault(f"{name}{suffix}", []).append(tokens)
                per_second.setdefault(f"{name}{suffix}", []).append(seconds)
    for name, values in per_token.items():
        found.add(f"accept_per_token_{name}", values)
    for name, values in per_second.items():
        found.add(f"accept_per_second_{name}", values)


def _run(
    name: str,
    way: Way,
    behaviours: Sequence[Behaviour],
    size: RunSize,
    frames: Frames,
    held_out: Frames,
    start: Snapshot,
    repeat: int,
) -> list[Point]:
    judge = demo_learner(drafts=DRAFTS)
    scored = packs(held_out, SCORED_TOKENS, random.Random(0))

    def score(weights: Weights) -> float:
        candidate = judge.candidate(weights)
        result = score_of(judge.tally(pack, candidate) for pack in scored)
        return result.accept_length if result else 1.0

    members = [
        TrainingMember(frames, behaviour, start, seed=1000 * repeat + number)
        for number, behaviour in enumerate(behaviours, 1)
    ]
    journey = Journey(size.tokens, score, points=size.points)
    way(members, journey)
    last = journey.points[-1]
    log(f"  {name}: {last.accept_length:.2f} after {last.tokens} tokens, {last.seconds:.1f} s")
    return journey.points


def _compared(points: Sequence[Point], alone: Sequence[Point]) -> tuple[float, float]:
    """Return the last accept length ÷ that of one trainer after as many tokens, and after as many seconds."""
    last = points[-1]
    tokens = between([(point.tokens, point.accept_length) for point in alone], last.tokens)
    seconds = between([(point.seconds, point.accept_length) for point in alone], last.seconds)
    return last.accept_length / tokens, last.accept_length / seconds
