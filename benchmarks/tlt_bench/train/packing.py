"""Packs compared to padded batches: learners that see the same windows equally often, in turns."""

import random
import time
from collections.abc import Mapping, Sequence

from countdown.model import CHECKPOINT
from tlt_bench.demo_learner import demo_learner
from tlt_bench.engines.bench_engine import log
from tlt_bench.ratios import Figures, over
from tlt_bench.train.windows import WAYS, packed, windows
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.data.held_out import HELD_OUT_BELOW
from tlt_trainer.drafter.loss import Pack
from tlt_trainer.drafter.score import score_of
from tlt_trainer.learner import Learner

CASES: Mapping[str, tuple[int, int]] = {"": (2048, 8192), "_windows": (256, 512)}
"""Tokens of a window and of a micro-step: whole responses in batches as a GPU takes them, and what engines capture and
trainers take by default."""
WINDOWS = 128
LEARNING_TOKENS = 512
"""What learners predict is compared up to this size of a micro-step. Of larger ones a full pack has so many more states
than a padded batch that its learner makes half as many steps, and it is the size of steps that is compared."""


def measure(*, repeats: int, seed: int = 0) -> Figures:
    """Return samples per second of packs relative to both alternatives, and the accept lengths of the learners."""
    found = Figures()
    for suffix, (frame_tokens, batch_tokens) in CASES.items():
        log(f"responses in windows of up to {frame_tokens} tokens")
        frames = windows(CHECKPOINT, seed=seed, frame_tokens=frame_tokens, count=WINDOWS)
        lengths = sorted(frame.header.token_count for frame in frames)
        median, longest = lengths[len(lengths) // 2], lengths[-1]
        note = f"{WINDOWS} windows of median {median}, at most {longest} tokens; micro-steps of {batch_tokens}"
        _compare(found, suffix, note, frames, batch_tokens, repeats)
    return found


def _compare(
    found: Figures, suffix: str, note: str, frames: Sequence[TrainingFrame], batch_tokens: int, repeats: int
) -> None:
    learners = {way: demo_learner() for way in WAYS}
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    samples = [frame for frame in frames if frame.header.prompt_hash >= HELD_OUT_BELOW]
    for repeat in range(repeats + 1):
        for way in random.Random(repeat).sample(list(WAYS), len(WAYS)):
            batches = WAYS[way](samples, batch_tokens, random.Random(repeat))
            seconds = _train(learners[way], batches)
            if repeat:  # the first is slow for whoever goes first
                rates[way].append(len(samples) / seconds)
        log(f"  repeat {repeat} of {repeats}")
    found.add(f"packed_samples_per_s{suffix}", rates["packed"], note)
    found.add(f"packed_vs_padded{suffix}", over(rates["packed"], rates["padded"]))
    found.add(f"packed_vs_by_length{suffix}", over(rates["packed"], rates["by_length"]))
    if batch_tokens > LEARNING_TOKENS:
        return
    held_out = packed(
        [frame for frame in frames if frame.header.prompt_hash < HELD_OUT_BELOW], batch_tokens, random.Random(0)
    )
    for way in ("packed", "padded"):
        score = score_of(learners[way].tally(pack) for pack in held_out)
        found.add(f"{way}_accept_length{suffix}", [score.accept_length if score else 0.0])


def _train(learner: Learner, batches: Sequence[Pack]) -> float:
    """Return the seconds of one pass over prebuilt batches."""
    began_s = time.perf_counter()
    for pack in batches:
        learner.micro_step(pack)
    return time.perf_counter() - began_s
