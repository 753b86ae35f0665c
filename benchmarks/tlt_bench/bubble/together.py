"""
How many idle workers to lend: the accept length that 1, 2 or 4 trainers reach in the same time, and what the
coordinator would choose from what the first one reports.

Learners of the demo's policy take turns on one core, each with a clock of the seconds that a device of its own would
have computed (see `tlt bench train --trainers`).
"""

import random

import torch

from countdown.task import DEFAULT_MIX
from tlt_bench.adapt.course import DRAFTS
from tlt_bench.adapt.data import SCORED_TOKENS, Frames, Policy, packs
from tlt_bench.demo_learner import demo_learner
from tlt_bench.engines.bench_engine import log
from tlt_bench.ratios import Figures
from tlt_bench.train.together.asynchronous import Asynchronous
from tlt_bench.train.together.member import STEADY, TrainingMember
from tlt_bench.train.together.way import Journey, Point, Weights, between
from tlt_common.domain.fleet import WorkerState, WorkerStatus
from tlt_common.domain.ids import DrafterVersion, Epoch, WorkerId
from tlt_coordinator.lending.worth import Worth
from tlt_trainer.drafter.score import score_of
from tlt_trainer.learned import Snapshot
from tlt_trainer.sharing.gain import LEAST, Gain

COUNTS = (1, 2, 4)
"""The last is all idle workers."""
TOKENS, QUICK_TOKENS = 24_000, 12_000
"""States that each trainer sees."""
BEFORE = (8_000, 40_000)
"""States that one learner has seen before: early in a run, and later."""
POINTS = 6


def lent_together(found: Figures, *, quick: bool) -> int:
    """Add the accept lengths of the counts, and how good the choice is; return the repeats."""
    torch.set_num_threads(1)
    policy = Policy()
    frames = policy.frames(DEFAULT_MIX, prompts=24 if quick else 64, samples=3, seed=10_000_000)
    held_out = policy.frames(DEFAULT_MIX, prompts=16, samples=1, seed=20_000_000)
    tokens, ratios = QUICK_TOKENS if quick else TOKENS, list[float]()
    for before in BEFORE[: 1 if quick else None]:
        first = TrainingMember(frames, STEADY, None, seed=before)
        first.train(before)
        learner = first.learner
        learner.settle(DrafterVersion(1), learner.weights(), learner.counters)
        journeys = {count: _journey(count, tokens, frames, held_out, learner.snapshot()) for count in COUNTS}
        same_s = min(points[-1].seconds for points in journeys.values())
        reached = {
            count: between([(point.seconds, point.accept_length) for point in points], same_s)
            for count, points in journeys.items()
        }
        chosen = _chosen(journeys[1], passes=tokens / sum(len(frame.token_ids) for frame in frames), idle_s=same_s)
        for count, length in reached.items():
            found.add(f"accept_{count}_after_{before}", [length], f"{count} of {COUNTS[-1]} idle workers lent")
        found.add(f"chosen_after_{before}", [chosen], "trainers that pay, as the coordinator estimates")
        ratios.append(reached[chosen] / max(reached.values()))
        log(f"  after {before} states: {reached}, chosen {chosen}")
    found.add("chosen_vs_best", ratios, "accept length of the chosen number ÷ the best")
    return len(ratios)


def _journey(count: int, tokens: int, frames: Frames, held_out: Frames, start: Snapshot) -> list[Point]:
    judge = demo_learner(drafts=DRAFTS)
    scored = packs(held_out, SCORED_TOKENS, random.Random(0))

    def score(weights: Weights) -> float:
        candidate = judge.candidate(weights)
        result = score_of(judge.tally(pack, candidate) for pack in scored)
        return result.accept_length if result else 1.0

    journey = Journey(count * tokens, score, points=POINTS)
    Asynchronous()([TrainingMember(frames, STEADY, start, seed=number) for number in range(count)], journey)
    return journey.points


def _chosen(alone: list[Point], *, passes: float, idle_s: float) -> int:
    """Return the number among COUNTS that the coordinator lends, by what a trainer reports half way."""
    gain, worth = Gain(), Worth()
    for point in alone[: max(LEAST, len(alone) // 2)]:
        gain.note(point.seconds, point.accept_length)
    status = WorkerStatus(
        state=WorkerState.TRAINING, epoch=Epoch(1), training_gain=gain.per_s, training_passes=passes / 2.0
    )
    worth.note(WorkerId("w0"), status)
    wanted = worth.trainers(idle_s)
    return max(count for count in COUNTS if count <= wanted)
