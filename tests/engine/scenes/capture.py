"""A sampled answer with capture enabled, and transformers' values for the same tokens."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from tests.engine import models
from tests.engine.scenes.engine import answer, frames, prompt
from tlt_common.domain.hidden import CapturePolicy, EncodedFrame
from tlt_common.domain.response import TokenChunk
from tlt_trainer.data.frame import decoded
from tlt_worker.engine.sglang import SglangEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A captured answer and its expected values."""

    answer: TokenChunk
    expected_logprobs: list[float]
    frames: list[EncodedFrame]
    frames_off_by: float
    """Largest difference from the expected states; infinity if some are missing or misplaced."""
    declined_frame_count: int
    """Frames of a request that declined capture."""


async def sampled(
    engine: SglangEngine,
    target: Path,
    layers: Sequence[int] = (),
    *,
    ids: Sequence[int] = range(2, 32),
    tokens: int = 150,
) -> Captured:
    """Answer a captured request together with one that declines capture; EAGLE-3 drafters read `layers`."""
    engine.set_capture(CapturePolicy(enabled=True, frame_tokens=64))
    await answer(engine, prompt("warm", max_new_tokens=2))
    captured = prompt("captured", tuple(ids), temperature=0.7, max_new_tokens=tokens)
    declining = replace(prompt("declining", max_new_tokens=20), capture=False)
    chunk, _ = await asyncio.gather(answer(engine, captured), answer(engine, declining))
    received = await frames(engine)
    whole = [*captured.token_ids, *chunk.token_ids]
    with torch.no_grad():
        model = models.load(target)
        seen = model(torch.tensor([whole]), output_hidden_states=True)
    logprobs = torch.log_softmax(seen.logits[0] / 0.7, -1)[len(captured.token_ids) - 1 : -1]
    own = [frame for frame in received if frame.header.request_id == "captured"]
    return Captured(
        answer=chunk,
        expected_logprobs=logprobs.gather(1, torch.tensor(chunk.token_ids).unsqueeze(1)).squeeze(1).tolist(),
        frames=own,
        frames_off_by=_off_by(own, whole, torch.cat([seen.hidden_states[n][0] for n in _read(layers)], dim=-1)),
        declined_frame_count=sum(frame.header.request_id == "declining" for frame in received),
    )


def _read(layers: Sequence[int]) -> list[int]:
    """Return the places of captured states in transformers' list: outputs of layers, then the last state."""
    return [*(layer + 1 for layer in layers), -1]


def _off_by(received: list[EncodedFrame], ids: list[int], expected: torch.Tensor) -> float:
    covered, worst = set(), 0.0
    for frame in map(decoded, received):
        start, end = frame.header.start, frame.header.start + frame.header.token_count
        if frame.token_ids.tolist() != ids[start : end + 1]:
            return float("inf")
        worst = max(worst, float((frame.hidden - expected[start:end]).abs().max()))
        covered |= set(range(start, end))
    return worst if covered == set(range(len(ids) - 1)) else float("inf")
