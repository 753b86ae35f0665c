"""Packs frames of different lengths one after another within a token budget, without padding."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import torch
from torch import Tensor

from tlt_common.domain.hidden import SCALED, FrameHeader
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.data.scaled_states import unscaled
from tlt_trainer.drafter.attention.layout import PackLayout
from tlt_trainer.drafter.loss import Pack


@dataclass(slots=True)
class _Open:
    """A pack to which frames can be added."""

    free_tokens: int
    frames: list[TrainingFrame] = field(default_factory=list)


def plan(frames: Sequence[TrainingFrame], max_tokens: int, rng: random.Random) -> list[tuple[TrainingFrame, ...]]:
    """
    Group frames in random order so that a group has at most `max_tokens` states (first fit).

    A longer frame forms its own group.
    """
    groups: list[_Open] = []
    for frame in rng.sample(frames, len(frames)):
        count = frame.header.token_count
        group = next((group for group in groups if group.free_tokens >= count), None)
        if group is None:
            group = _Open(max_tokens)
            groups.append(group)
        group.frames.append(frame)
        group.free_tokens -= count
    return [tuple(group.frames) for group in groups]


def cut(frame: TrainingFrame, max_tokens: int) -> list[TrainingFrame]:
    """
    Split a frame into windows of similar length with at most `max_tokens` states. Their tensors are views.

    A cut costs a scored entry, and the states after it no longer attend to those before.
    """
    count = frame.header.token_count
    pieces = -(-count // max_tokens)
    edges = [count * piece // pieces for piece in range(pieces + 1)]
    return [_window(frame, first, end) for first, end in pairwise(edges)] if pieces > 1 else [frame]


def _window(frame: TrainingFrame, first: int, end: int) -> TrainingFrame:
    header = replace(frame.header, start=frame.header.start + first, token_count=end - first)
    return TrainingFrame(header=header, token_ids=frame.token_ids[first : end + 1], hidden=frame.hidden[first:end])


def collate(frames: Sequence[TrainingFrame], device: torch.device) -> Pack:
    """Build one pack from frames of equal hidden size. Frames of similar length become neighbors."""
    frames = sorted(frames, key=lambda frame: frame.header.token_count)
    headers = [frame.header for frame in frames]
    scored, first = [], 0
    for header in headers:
        scored.append(torch.arange(first + first_scored(header), first + header.token_count - 1))
        first += header.token_count
    layout = PackLayout.of([header.token_count for header in headers], device)
    starts = torch.cat([torch.full((header.token_count,), header.start) for header in headers])
    return Pack(
        next_ids=torch.cat([frame.token_ids[1:] for frame in frames]).long().to(device),
        hidden=_hidden(frames, device),
        positions=starts.to(device) + layout.offsets,
        scored=torch.cat(scored).to(device),
        layout=layout,
    )


def _hidden(frames: Sequence[TrainingFrame], device: torch.device) -> Tensor:
    """Return the states of all frames in bfloat16. Scaled states are decoded on the device after the copy."""
    kinds = {frame.header.dtype == SCALED for frame in frames}
    if len(kinds) > 1:  # only after the capture policy has changed
        return torch.cat([_hidden([frame], device) for frame in frames])
    states = torch.cat([frame.hidden for frame in frames])
    return unscaled(states.to(device)) if True in kinds else states.bfloat16().to(device)


def first_scored(header: FrameHeader) -> int:
    """
    Return the first entry that predicts a generated token: entry t predicts the one at position start + t + 2.

    The last state of a frame has no successor; a frame with prompt tokens only has no scored entry.
    """
    return min(max(0, header.prompt_tokens - header.start - 2), header.token_count - 1)


def scored_count(header: FrameHeader) -> int:
    """Return the number of entries that count in the loss."""
    return header.token_count - 1 - first_scored(header)
