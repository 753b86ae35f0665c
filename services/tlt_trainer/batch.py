"""
Frames -> batches of windows.

Windows are padded to the longest of their batch; since batches are made of windows of like length, little is. A
packed layout would replace `plan` and `collate` and nothing else.
"""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from tlt_common.domain.hidden import HiddenFrame
from tlt_trainer.drafter.loss import Batch

TORCH_DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}


def plan(frames: Sequence[HiddenFrame], max_tokens: int, rng: random.Random) -> list[tuple[HiddenFrame, ...]]:
    """Group frames so that a group, padded, has at most `max_tokens` states; a longer frame is alone. Random order."""
    groups: list[tuple[HiddenFrame, ...]] = []
    current: list[HiddenFrame] = []
    for frame in sorted(frames, key=lambda frame: frame.token_count):
        if current and (len(current) + 1) * frame.token_count > max_tokens:
            groups.append(tuple(current))
            current = []
        current.append(frame)
    if current:
        groups.append(tuple(current))
    rng.shuffle(groups)
    return groups


def collate(frames: Sequence[HiddenFrame], device: torch.device) -> Batch:
    """Make one batch of frames of equal hidden size."""
    longest, size = max(frame.token_count for frame in frames), frames[0].hidden_size
    token_ids = torch.zeros(len(frames), longest + 1, dtype=torch.int64)
    hidden = torch.zeros(len(frames), longest, size, dtype=torch.bfloat16)
    starts = torch.tensor([frame.start for frame in frames])
    weights = torch.zeros(len(frames), longest)
    for row, frame in enumerate(frames):
        token_ids[row, : frame.token_count + 1] = torch.tensor(frame.token_ids)
        hidden[row, : frame.token_count] = _states(frame)
        weights[row, first_scored(frame) : frame.token_count - 1] = 1
    return Batch(
        token_ids=token_ids.to(device),
        hidden=hidden.to(device),
        positions=(starts[:, None] + torch.arange(longest)).to(device),
        weights=weights.to(device),
        tokens=sum(frame.token_count for frame in frames),
    )


def first_scored(frame: HiddenFrame) -> int:
    """Return the first entry that guesses a generated token: entry t guesses the one at position start + t + 2."""
    return max(0, frame.prompt_tokens - frame.start - 2)


def scored_count(frame: HiddenFrame) -> int:
    """Return the number of entries the loss counts; the last state of a frame has no successor to compare with."""
    return max(0, frame.token_count - 1 - first_scored(frame))


def _states(frame: HiddenFrame) -> Tensor:
    # A bytearray, since torch warns of memory that it could write to but must not.
    flat = torch.frombuffer(bytearray(frame.hidden), dtype=TORCH_DTYPES[frame.dtype])
    return flat.view(frame.token_count, frame.hidden_size)
