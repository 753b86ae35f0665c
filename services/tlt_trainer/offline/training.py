"""Trains and scores a drafter on collected rollouts. The learner is the spot trainer's."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tlt_common.domain.hidden import prompt_hash
from tlt_common.domain.ids import DrafterVersion
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.meta import DrafterMeta
from tlt_common.drafter.token_counts import TokenCounts
from tlt_common.errors import ConfigError
from tlt_common.recorded_rollouts import RecordedRollout
from tlt_trainer.config import DataSettings
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.data.held_out import HeldOutPrompts
from tlt_trainer.data.pack import collate, plan
from tlt_trainer.drafter.files import to_files
from tlt_trainer.drafter.loss import Pack
from tlt_trainer.drafter.own_head import read_own_head
from tlt_trainer.drafter.score import Score, score_of
from tlt_trainer.drafter.shared_weights import read_shared
from tlt_trainer.learned import Published
from tlt_trainer.learner import Learner
from tlt_trainer.offline.beginning import Beginning
from tlt_trainer.offline.states import frames_of

AT_ONCE = 64
"""Rollouts whose states are in memory at once."""
BATCH_TOKENS = DataSettings().batch_tokens
"""States per micro-step, for which the learning rates were chosen."""
SCORED_DRAFTS = 3
"""Drafts of a chain in scores, whatever the drafter was trained with, so that scores can be compared."""
AUTHOR = "tlt-drafter-train"
"""Recorded as the worker that trained the drafter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A pass over the data."""

    number: int
    tokens: int
    """States trained on so far."""
    loss: float
    """Mean over the pass, per scored entry of a micro-step."""
    score: Score
    """On held-out prompts."""


class OfflineTraining:
    """
    A policy and a learner of a drafter for it.

    Args:
        model: Directory of the policy's checkpoint.
        begin: The drafter to begin with.
        device: Device to train on, and to compute the policy's states on.
        passes: Passes of training; None: as many as its kind is trained with.
        drafts: Drafts of a chain in scores.

    Raises:
        WeightsError: Embedding or head cannot be read.
    """

    def __init__(
        self,
        model: Path,
        begin: Beginning,
        device: torch.device,
        *,
        passes: int | None = None,
        drafts: int = SCORED_DRAFTS,
    ) -> None:
        from transformers import AutoModelForCausalLM  # takes seconds

        from tlt_common import mimo

        mimo.register_model()
        self._device = device
        self._learner = Learner(begin.form, device, passes=passes, drafts=drafts)
        if (head := read_own_head(model, begin.form)) is not None:
            self._learner.begin(head)
        self._learner.share(read_shared(model, begin.form, device))
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self._policy: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype).base_model.to(device).eval()
        if (weights := begin.weights) is not None:
            self._learner.follow(Published(version=DrafterVersion(0), weights=weights, steps=0, tokens=0), weights)

    def train(
        self, rollouts: Sequence[RecordedRollout], *, epochs: int, seed: int, report: Callable[[Epoch], None]
    ) -> tuple[dict[str, bytes], Score]:
        """
        Train; return the drafter's files and its score. One prompt in eight, and at least one, is kept for scoring.

        The draft tokens of an EAGLE-3 drafter are chosen from the responses first, if it has none that cover them.

        Args:
            rollouts: Data.
            epochs: Passes over the data, at least one.
            seed: Seed of the order.
            report: Called after every pass.

        Raises:
            ConfigError: There are fewer than two different prompts, or no tokens to score on.
            WeightsError: A loss is not finite.
        """
        training, held_out = _split(rollouts)
        if (tokens_D := self._learner.tokens) is not None:
            better_D = _counted(training, self._learner.form).better_than(tokens_D.cpu().numpy())
            if better_D is not None:
                self._learner.choose(torch.from_numpy(better_D))
        score = self.score(held_out)  # now: without a token to score on, no pass should begin
        rng = random.Random(seed)
        for number in range(1, epochs + 1):
            packs = self._packs(rng.sample(training, len(training)), rng)
            losses = [self._learner.micro_step(pack) for pack in packs]
            score = self.score(held_out)
            tokens = self._learner.counters.tokens
            report(Epoch(number=number, tokens=tokens, loss=sum(losses) / max(1, len(losses)), score=score))
        meta = self._meta(score)
        return to_files(self._learner.weights(), self._learner.form, meta), score

    def _meta(self, score: Score) -> DrafterMeta:
        counters = self._learner.counters
        return DrafterMeta(
            version=1,
            base=0,
            worker_id=AUTHOR,
            steps=counters.steps,
            tokens=counters.tokens,
            held_out_top1=score.top1,
        )

    def score(self, rollouts: Sequence[RecordedRollout]) -> Score:
        """
        Score the averaged weights on all positions of these responses.

        Raises:
            ConfigError: There are none: responses have one token.
        """
        score = score_of(self._learner.tally(pack) for pack in self._packs(rollouts, random.Random(0)))
        if score is None:
            raise ConfigError("--data has no token to score on; its responses must have several tokens", field="data")
        return score

    def coverage(self, rollouts: Sequence[RecordedRollout]) -> float:
        """Return the share of the responses' tokens that are draft tokens."""
        tokens_D = self._learner.tokens
        return 1.0 if tokens_D is None else _counted(rollouts, self._learner.form).coverage(tokens_D.cpu().numpy())

    def _packs(self, rollouts: Sequence[RecordedRollout], rng: random.Random) -> Iterator[Pack]:
        for first in range(0, len(rollouts), AT_ONCE):
            some = enumerate(rollouts[first : first + AT_ONCE], first)
            frames = [frame for number, one in some for frame in self._frames(one, f"{number}/0")]
            for group in plan(frames, BATCH_TOKENS, rng):
                yield collate(group, self._device)

    def _frames(self, rollout: RecordedRollout, name: str) -> Iterator[TrainingFrame]:
        return frames_of(self._policy, rollout, name, layers=self._learner.form.layers)


def _counted(rollouts: Sequence[RecordedRollout], form: DrafterFormat) -> TokenCounts:
    counts = TokenCounts(form.vocab_size)
    for rollout in rollouts:
        counts.add(rollout.response)
    return counts


def _split(rollouts: Sequence[RecordedRollout]) -> tuple[list[RecordedRollout], list[RecordedRollout]]:
    """Return the rollouts to train on and those to score on, by prompt, as spot trainers split them."""
    prompts = HeldOutPrompts()
    hashes = [prompt_hash(rollout.prompt) for rollout in rollouts]
    for one in hashes:
        prompts.see(one)
    training = [rollout for rollout, one in zip(rollouts, hashes, strict=True) if not prompts.holds_out(one)]
    held_out = [rollout for rollout, one in zip(rollouts, hashes, strict=True) if prompts.holds_out(one)]
    if not training:
        raise ConfigError(
            "--data has no prompts besides those held out for scoring; add more different prompts",
            field="data",
        )
    return training, held_out
