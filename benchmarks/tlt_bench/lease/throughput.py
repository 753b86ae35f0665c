"""What small micro-steps cost: tokens learned from per second, by the states of a micro-step."""

import random
import time
from collections.abc import Sequence

import torch

from tlt_bench.demo_learner import CPU, demo_learner
from tlt_bench.engines.bench_engine import log
from tlt_bench.random_frame import random_frame
from tlt_bench.ratios import Figures, over
from tlt_trainer.config import DataSettings
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.data.pack import collate, cut, plan
from tlt_trainer.learner import Learner

SIZES = (64, 128, 256, DataSettings().batch_tokens)
"""States of a micro-step; the last is the default, with which the others are compared."""
FRAMES = 32
FRAME_TOKENS = 256


def measure(*, repeats: int) -> Figures:
    """Return the rate of the default size, and those of smaller ones relative to it, on one core."""
    torch.set_num_threads(1)
    learner = demo_learner()
    frames = [random_frame(learner.form, FRAME_TOKENS, number=number) for number in range(FRAMES)]
    rates: dict[int, list[float]] = {size: [] for size in SIZES}
    longest: dict[int, list[float]] = {size: [] for size in SIZES}
    for repeat in range(repeats + 1):
        for size in random.Random(repeat).sample(SIZES, len(SIZES)):
            seconds = _train(learner, frames, size)
            if repeat:  # the first is slow for whoever goes first
                rates[size].append(FRAMES * FRAME_TOKENS / sum(seconds))
                longest[size].append(1000 * sorted(seconds)[len(seconds) // 2])
        log(f"  repeat {repeat} of {repeats}")
    found = Figures()
    found.add("learned_tokens_per_s", rates[SIZES[-1]], f"micro-steps of {SIZES[-1]} states")
    for size in SIZES:
        found.add(f"micro_step_ms_{size}", longest[size])
        if size != SIZES[-1]:
            found.add(f"learned_vs_default_{size}", over(rates[size], rates[SIZES[-1]]))
    return found


def _train(learner: Learner, frames: Sequence[TrainingFrame], size: int) -> list[float]:
    """Learn from all frames; return the duration of each micro-step, with its optimizer step if it had one."""
    windows = [window for frame in frames for window in cut(frame, size)]
    seconds = []
    for group in plan(windows, size, random.Random(0)):
        began_s = time.perf_counter()
        learner.micro_step(collate(group, CPU))
        seconds.append(time.perf_counter() - began_s)
    return seconds
