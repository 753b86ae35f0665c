"""Windows of responses for training, and ways to form batches of them."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch.nn import functional
from transformers import LlamaForCausalLM

from countdown.make_drafter import frames_of_responses
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.data.pack import collate, first_scored, plan
from tlt_trainer.drafter.loss import Pack

Groups = list[tuple[TrainingFrame, ...]]
CPU = torch.device("cpu")
PROBLEMS = 64


def windows(checkpoint: Path, *, seed: int, frame_tokens: int, count: int) -> list[TrainingFrame]:
    """Sample responses of the demo's policy; return windows of them with hidden states, in random order."""
    model = LlamaForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    groups = frames_of_responses(model, seed, PROBLEMS, frame_tokens=frame_tokens)
    found: list[TrainingFrame] = []
    while len(found) < count:
        found += next(groups)
    return random.Random(seed).sample(found, count)


def packed(frames: Sequence[TrainingFrame], max_tokens: int, rng: random.Random) -> list[Pack]:
    """Return packs, as formed by trainers."""
    return [collate(group, CPU) for group in plan(frames, max_tokens, rng)]


def padded(frames: Sequence[TrainingFrame], max_tokens: int, rng: random.Random) -> list[Pack]:
    """Return batches in random order, padded to their longest window, with at most `max_tokens` including padding."""
    return [_rectangle(group) for group in _rectangles(rng.sample(frames, len(frames)), max_tokens)]


def by_length(frames: Sequence[TrainingFrame], max_tokens: int, rng: random.Random) -> list[Pack]:
    """Return batches of windows of similar length, which need little padding."""
    groups = _rectangles(sorted(frames, key=lambda frame: frame.header.token_count), max_tokens)
    return [_rectangle(group) for group in rng.sample(groups, len(groups))]


WAYS: dict[str, Callable[[Sequence[TrainingFrame], int, random.Random], list[Pack]]] = {
    "packed": packed,
    "padded": padded,
    "by_length": by_length,
}


def _rectangles(frames: Sequence[TrainingFrame], max_tokens: int) -> Groups:
    groups: Groups = []
    for frame in frames:
        longest = max(frame.header.token_count, *(one.header.token_count for one in groups[-1])) if groups else 0
        if groups and (len(groups[-1]) + 1) * longest <= max_tokens:
            groups[-1] = (*groups[-1], frame)
        else:
            groups.append((frame,))
    return groups


def _rectangle(frames: Sequence[TrainingFrame]) -> Pack:
    """Return a pack of samples of equal length, as one batch. Padding is computed but not scored."""
    longest = max(frame.header.token_count for frame in frames)
    scored = [
        row * longest + torch.arange(first_scored(frame.header), frame.header.token_count - 1)
        for row, frame in enumerate(frames)
    ]
    return replace(collate([_padded(frame, longest) for frame in frames], CPU), scored=torch.cat(scored))


def _padded(frame: TrainingFrame, length: int) -> TrainingFrame:
    missing = length - frame.header.token_count
    return TrainingFrame(
        header=replace(frame.header, token_count=length),
        token_ids=functional.pad(frame.token_ids, (0, missing)),
        hidden=functional.pad(frame.hidden, (0, 0, 0, missing)),
    )
