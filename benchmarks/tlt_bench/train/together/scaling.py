"""Samples per second of several trainer processes, each with one thread, against one."""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier

import torch

from tlt_bench.demo_learner import CPU, demo_learner
from tlt_bench.random_frame import random_frame
from tlt_trainer.data.pack import collate

FRAME_TOKENS = 128
FRAMES = 4
"""Frames of a micro-step, of 512 states in all."""
_barriers: list[Barrier] = []


def samples_per_s(processes: int, *, seconds: float) -> float:
    """Return how many samples so many processes together learn from per second."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes)
    with ProcessPoolExecutor(processes, context, initializer=_meet, initargs=(barrier,)) as pool:
        return sum(pool.map(_train, [seconds] * processes))


def _meet(barrier: Barrier) -> None:
    """Remember, in a child process, where all of them begin."""
    _barriers.append(barrier)


def _train(seconds: float) -> float:
    torch.set_num_threads(1)
    learner = demo_learner()
    pack = collate([random_frame(learner.form, FRAME_TOKENS) for _ in range(FRAMES)], CPU)
    learner.micro_step(pack)
    _barriers[0].wait(timeout=120.0)
    began_s, samples = time.perf_counter(), 0
    while time.perf_counter() - began_s < seconds:
        learner.micro_step(pack)
        samples += FRAMES
    return samples / (time.perf_counter() - began_s)
