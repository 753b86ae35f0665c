"""Responses of the demo's policy with their hidden states, as engines capture them."""

import random
from collections.abc import Sequence
from itertools import count

import torch
from transformers import LlamaForCausalLM

from countdown.make_drafter import CAP_TOKENS, rollout_of
from countdown.model import CHECKPOINT
from countdown.sampling import sample
from countdown.task import Mix, draw_problems
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.data.pack import collate, cut, plan, scored_count
from tlt_trainer.drafter.loss import Pack
from tlt_trainer.offline.states import frames_of

CPU = torch.device("cpu")
BATCH_TOKENS = 512
SCORED_TOKENS = 2048
"""States of a micro-step, as trainers take them by default, and of a pack that is scored."""

Frames = list[TrainingFrame]


class Policy:
    """The policy of the demo."""

    def __init__(self) -> None:
        self._model = LlamaForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32)
        self._number = count()

    def frames(self, mix: Mix, *, prompts: int, samples: int, seed: int) -> Frames:
        """Sample responses at temperature 1 to prompts of this mix."""
        each = [problem for problem in draw_problems(prompts, seed=seed, mix=mix) for _ in range(samples)]
        return [
            frame
            for response in sample(self._model, each, cap_tokens=CAP_TOKENS, seed=seed)
            for frame in frames_of(self._model.model, rollout_of(response), f"{next(self._number)}/0")
        ]


def packs(frames: Sequence[TrainingFrame], max_tokens: int, rng: random.Random) -> list[Pack]:
    """Return the frames in packs of at most `max_tokens` states, in random order, with longer ones cut."""
    windows = [window for frame in frames for window in cut(frame, max_tokens) if scored_count(window.header) > 0]
    return [collate(group, CPU) for group in plan(windows, max_tokens, rng)]
