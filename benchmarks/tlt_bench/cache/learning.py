"""Accept lengths of drafters trained on states of 8 bits, against those of 16: the same responses, the same tokens."""

from dataclasses import replace

import torch

from countdown.task import DEFAULT_MIX
from tlt_bench.adapt.course import Course
from tlt_bench.adapt.data import Frames, Policy
from tlt_bench.engines.bench_engine import log
from tlt_bench.ratios import Figures, over
from tlt_common.domain.hidden import SCALED
from tlt_trainer.data.frame import TrainingFrame
from tlt_worker.scheduler.launched_round import scaled_rows

TOKENS = 60_000
"""States that each learner is trained on."""


def measure(*, repeats: int) -> Figures:
    """Train on both encodings in turns; score both on states of 16 bits, which drafters read in the engine."""
    torch.set_num_threads(1)  # two wait for each other on a machine that has other work
    log("sampling 48 responses to 24 prompts")
    policy = Policy()
    frames = policy.frames(DEFAULT_MIX, prompts=24, samples=2, seed=80_000_000)
    held_out = policy.frames(DEFAULT_MIX, prompts=8, samples=1, seed=90_000_000)
    scaled = _scaled(frames)
    lengths: dict[str, list[float]] = {"8bit": [], "bf16": []}
    for seed in range(repeats):
        for name, seen in (("8bit", scaled), ("bf16", frames)):
            course = Course(held_out, seed=seed)
            course.train(seen, tokens=TOKENS)
            lengths[name].append(course.score())
        log(f"  {lengths['8bit'][-1]:.3f} tokens per round with 8 bits, {lengths['bf16'][-1]:.3f} with 16")
    found = Figures()
    for name, values in lengths.items():
        found.add(f"{name}_accept_length", values, f"after {TOKENS} states of the same responses")
    found.add("accept_8bit_vs_bf16", over(lengths["8bit"], lengths["bf16"]))
    sizes = [sum(frame.hidden.nbytes for frame in seen) for seen in (scaled, frames)]
    found.add("bytes_8bit_vs_bf16", [sizes[0] / sizes[1]], "states of 256 elements; 0.5005 at 4,096")
    return found


def _scaled(frames: Frames) -> Frames:
    """Return the frames as an engine encodes them in 8 bits, and a trainer reads them."""
    return [
        TrainingFrame(
            header=replace(frame.header, dtype=SCALED),
            token_ids=frame.token_ids,
            hidden=scaled_rows(frame.hidden.clone()),
        )
        for frame in frames
    ]
