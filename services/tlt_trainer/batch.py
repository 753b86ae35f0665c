"""
Groups frames into batches of windows.

Windows are padded to the longest of their batch; batches consist of windows of similar length, so there is little
padding. A packed layout would replace only `plan` and `collate`.
"""

import random
from collections.abc import Sequence

import torch

from tlt_common.domain.hidden import FrameHeader
from tlt_trainer.drafter.loss import Batch
from tlt_trainer.frame import TrainingFrame


def plan(frames: Sequence[TrainingFrame], max_tokens: int, rng: random.Random) -> list[tuple[TrainingFrame, ...]]:
    """
    Group frames so that a padded group has at most `max_tokens` states, in random order.

    A longer frame forms its own group.
    """
    groups: list[tuple[TrainingFrame, ...]] = []
    current: list[TrainingFrame] = []
    for frame in sorted(frames, key=lambda frame: frame.header.token_count):
        if current and (len(current) + 1) * frame.header.token_count > max_tokens:
            groups.append(tuple(current))
            current = []
        current.append(frame)
    if current:
        groups.append(tuple(current))
    rng.shuffle(groups)
    return groups


def collate(frames: Sequence[TrainingFrame], device: torch.device) -> Batch:
    """Build one batch from frames of equal hidden size."""
    headers = [frame.header for frame in frames]
    longest, size = max(header.token_count for header in headers), headers[0].hidden_size
    token_ids = torch.zeros(len(frames), longest + 1, dtype=torch.int64)
    hidden = torch.zeros(len(frames), longest, size, dtype=torch.bfloat16)
    starts = torch.tensor([header.start for header in headers])
    weights = torch.zeros(len(frames), longest)
    for row, (frame, header) in enumerate(zip(frames, headers, strict=True)):
        token_ids[row, : header.token_count + 1] = frame.token_ids
        hidden[row, : header.token_count] = frame.hidden
        weights[row, first_scored(header) : header.token_count - 1] = 1
    return Batch(
        token_ids=token_ids.to(device),
        hidden=hidden.to(device),
        positions=(starts[:, None] + torch.arange(longest)).to(device),
        weights=weights.to(device),
        tokens=sum(header.token_count for header in headers),
    )


def first_scored(header: FrameHeader) -> int:
    """Return the first entry that predicts a generated token: entry t predicts the one at position start + t + 2."""
    return max(0, header.prompt_tokens - header.start - 2)


def scored_count(header: FrameHeader) -> int:
    """Return the number of entries that count in the loss; the last state of a frame has no successor."""
    return max(0, header.token_count - 1 - first_scored(header))
