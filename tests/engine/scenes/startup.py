"""Responses of an earlier run, computed piece by piece, and transformers' states of the same tokens."""

from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import torch

from tests.engine import models
from tests.engine.scenes.engine import answer, frames, running
from tlt_common.domain.hidden import CapturePolicy, prompt_hash
from tlt_common.domain.ids import RequestId
from tlt_common.recorded_rollouts import RecordedRollout
from tlt_trainer.data.frame import TrainingFrame, decoded
from tlt_worker.engine_config import EngineConfig
from tlt_worker.requests import startup

PIECE_TOKENS = 64
ROLLOUTS = (
    RecordedRollout(prompt=tuple(range(2, 32)), response=tuple(n * 7 % 60 + 2 for n in range(170))),
    RecordedRollout(prompt=tuple(range(5, 15)), response=(3, 9)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What was captured of a response."""

    pieces: int
    missing: int
    """States from the prompt's last one on that were not captured together with the response's next token."""
    other_tokens: int
    """States with another next token."""
    off_by: float
    """Largest difference from transformers' states."""
    is_of_prompt: bool
    """Whether every frame says which tokens are the prompt."""


async def computed(work: Path) -> list[Learned]:
    """Compute each response in pieces."""
    target = models.write_target(work / "target", vocabulary=64, hidden=64, layers=4, weight=0.08)
    startup.PIECE_TOKENS = PIECE_TOKENS
    config, number = EngineConfig(dtype="float32", max_running=2, context_length=512, arms=("off",)), count()
    found = list[Learned]()
    async with running(target, config) as engine:
        engine.set_capture(CapturePolicy(enabled=True, frame_tokens=32))
        for rollout in ROLLOUTS:
            for piece in startup.pieces(rollout):
                await answer(engine, replace(piece, request_id=RequestId(f"piece-{next(number)}")))
            found.append(_learned(rollout, [decoded(frame) for frame in await frames(engine)], target))
    return found


def _learned(rollout: RecordedRollout, received: list[TrainingFrame], target: Path) -> Learned:
    ids = torch.tensor(rollout.token_ids)
    with torch.no_grad():
        expected = models.load(target)(ids[None], output_hidden_states=True).hidden_states[-1][0]
    followed, others, worst = set[int](), 0, 0.0
    for frame in received:
        span = slice(frame.header.start, frame.header.start + len(frame.hidden))
        worst = max(worst, float((frame.hidden - expected[span]).abs().max()))
        is_next = frame.token_ids[1:] == ids[1:][span]
        followed |= {frame.header.start + place for place, same in enumerate(is_next.tolist()) if same}
        others += int((~is_next).sum())
    own = (len(rollout.prompt), prompt_hash(rollout.prompt))
    return Learned(
        pieces=len(list(startup.pieces(rollout))),
        missing=len(set(range(len(rollout.prompt) - 1, len(ids) - 2)) - followed),
        other_tokens=others,
        off_by=worst,
        is_of_prompt=all((frame.header.prompt_tokens, frame.header.prompt_hash) == own for frame in received),
    )
