"""Implementation of `tlt bench adapt`."""

import torch

from countdown.curriculum import LARGE, SMALL
from countdown.settings import DRAFTER
from countdown.task import DEFAULT_MIX
from tlt_bench.adapt.course import NOW, Course, Recipe, seconds_to
from tlt_bench.adapt.data import Frames, Policy
from tlt_bench.adapt.first_token import measure_first_token
from tlt_bench.engines.bench_engine import log
from tlt_bench.ratios import Figures, over
from tlt_bench.result import Result
from tlt_trainer.config import POOL_BYTES
from tlt_trainer.data.frame_pool import FramePool
from tlt_trainer.drafter.files import from_files
from tlt_trainer.drafter.shared_weights import read_format

PARTS = ("learning", "shift", "announced")
REPEATS = 3
GOALS = (4.0, 5.0)
BEFORE = Recipe(passes=3, regression_weight=0.1)
"""The trainers' first recipe, with the weights of EAGLE's authors."""
TAIL_S = 30.0
"""Device seconds of a long tail on one idle device."""
SMALL_TOKENS = 60_000
MANY_PROMPTS = 96
"""Prompts of a step that has more responses than a tail can learn from."""
MAX_TOKENS = 240_000
WEIGHTS, CONFIG = "model.safetensors", "config.json"


def measure(parts: tuple[str, ...] = PARTS) -> Result:
    """Run these parts of the benchmark and return their figures. Progress goes to stderr."""
    found, policy = Figures(), Policy()
    torch.set_num_threads(2)
    if "learning" in parts:
        _learning(found, policy)
    if "shift" in parts:
        _shift(found, policy)
    if "announced" in parts:
        found.merge(measure_first_token())
    return found.result("adapt", repeats=REPEATS)


def _learning(found: Figures, policy: Policy) -> None:
    """Measure the device seconds from scratch to each accept length, with the current recipe and the previous one."""
    log("sampling 288 responses to 96 prompts")
    frames = policy.frames(DEFAULT_MIX, prompts=96, samples=3, seed=10_000_000)
    held_out = policy.frames(DEFAULT_MIX, prompts=24, samples=1, seed=20_000_000)
    torch.set_num_threads(1)
    seconds: dict[float, list[tuple[float, float]]] = {goal: [] for goal in GOALS}
    for seed in range(REPEATS):
        ways = []
        for name, recipe in (("now", NOW), ("before", BEFORE)):
            log(f"from scratch, {name}, {seed + 1} of {REPEATS}")
            ways.append(Course(held_out, recipe=recipe, seed=seed).climb(frames, GOALS, max_tokens=MAX_TOKENS))
        for goal in GOALS:
            now, before = (seconds_to(goal, way) for way in ways)
            if now is not None and before is not None:
                seconds[goal].append((now, before))
    for goal, pairs in seconds.items():
        if pairs:  # a goal that was not reached has no figure
            now_s, before_s = zip(*pairs, strict=True)
            found.add(
                f"seconds_to_{goal:.0f}", now_s, f"device seconds to an accept length of {goal:.0f}, from scratch"
            )
            found.add(f"seconds_ratio_{goal:.0f}", over(now_s, before_s))


def _shift(found: Figures, policy: Policy) -> None:
    """Train on small problems, then for one tail that also has the responses of a step with larger problems."""
    torch.set_num_threads(2)
    log("sampling small problems, and steps with larger ones")
    small = policy.frames(SMALL, prompts=256, samples=2, seed=30_000_000)
    steps = [policy.frames(LARGE, prompts=12, samples=3, seed=40_000_000 + seed) for seed in range(REPEATS)]
    many = policy.frames(LARGE, prompts=MANY_PROMPTS, samples=3, seed=45_000_000)
    held_out = policy.frames(LARGE, prompts=24, samples=1, seed=50_000_000)
    torch.set_num_threads(1)
    files = {name: (DRAFTER / name).read_bytes() for name in (WEIGHTS, CONFIG)}
    weights = from_files(files, read_format(DRAFTER.parent / "checkpoint"))
    offline = Course(held_out, weights=weights).score()
    frozen = list[float]()
    adapted, adapted_many = list[float](), list[float]()
    for seed, step in enumerate(steps):
        course = Course(held_out, seed=seed)
        course.train(_pool(small), tokens=SMALL_TOKENS)
        frozen.append(course.score())
        before = course.learner.snapshot()
        for frames, scores in ((step, adapted), (many, adapted_many)):
            course.learner.discard()
            course.learner.restore(before)
            course.train(_pool(small, frames), seconds=TAIL_S)
            scores.append(course.score())
        log(
            f"  {frozen[-1]:.2f} tokens per round, {adapted[-1]:.2f} after one tail, {adapted_many[-1]:.2f} with "
            f"{MANY_PROMPTS} prompts, {offline:.2f} trained offline"
        )
    found.add("frozen_accept_length", frozen, f"on larger problems, after {SMALL_TOKENS} tokens of small ones")
    found.add("adapted_accept_length", adapted, f"then {TAIL_S:.0f} device seconds with 36 responses to 12 larger ones")
    found.add(
        f"adapted_{MANY_PROMPTS}_accept_length",
        adapted_many,
        f"instead, as many device seconds with the responses to {MANY_PROMPTS} larger ones",
    )
    found.add("offline_accept_length", [offline], "the shipped drafter, trained on 690 k tokens")
    found.add("adapted_vs_frozen", over(adapted, frozen))
    found.add("adapted_vs_offline", [value / offline for value in adapted])


def _pool(*steps: Frames) -> FramePool:
    """Return a trainer's pool after these steps."""
    pool = FramePool(budget_bytes=POOL_BYTES)
    for step in steps:
        pool.add(step)
    return pool
