"""Trains and scores a drafter on collected rollouts, with the spot trainer's learner."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from tlt_common.domain.ids import DrafterVersion
from tlt_common.drafter.meta import DrafterMeta
from tlt_common.errors import ConfigError
from tlt_common.recorded_rollouts import RecordedRollout
from tlt_trainer.config import DataSettings
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.data.pack import collate, plan
from tlt_trainer.drafter.files import to_files
from tlt_trainer.drafter.loss import Pack
from tlt_trainer.drafter.own_head import read_own_head
from tlt_trainer.drafter.precision import compute_dtype
from tlt_trainer.drafter.score import Score, score_of
from tlt_trainer.drafter.shared_weights import read_shared
from tlt_trainer.learned import Published
from tlt_trainer.learner import Learner
from tlt_trainer.offline import course as courses
from tlt_trainer.offline.beginning import Beginning
from tlt_trainer.offline.course import Progress, TrainingCourse
from tlt_trainer.offline.data import Numbered, counted, first_with, order_of, split, states_in
from tlt_trainer.offline.states import states_of, windows_of
from tlt_trainer.offline.stored_states import StoredStates

AT_ONCE = 64
"""Rollouts whose states are in memory at once: a part of a pass over the data."""
BATCH_TOKENS = DataSettings().batch_tokens
"""States per micro-step, for which the learning rates were chosen, and per window of a response: a drafter learns to
attend to as many."""
SCORED_DRAFTS = 3
"""Drafts of a chain in scores, whatever the drafter was trained with, so that scores can be compared."""
SCORES = 16
"""Scores in the course of training, at least one in every pass."""
SCORED_STATES = 8192
"""Held-out states of those scores: one takes as long as training on several times as many, since it needs the whole
head. The last score is that of all."""
SAVE_EVERY_S = 60.0
AUTHOR = "tlt-drafter-train"
"""Recorded as the worker that trained the drafter."""


Frames = list[TrainingFrame]


class OfflineTraining:
    """
    A policy, and a learner of a drafter for it.

    Args:
        model: Directory of the policy's checkpoint.
        begin: The initial drafter.
        device: Device for training and for the policy's states.
        passes: Training passes; None for the default of its kind.
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
        dtype = compute_dtype(device)
        self._policy: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype).base_model.to(device).eval()
        self._learner.tokens_before = begin.tokens
        if (weights := begin.weights) is not None:
            self._learner.follow(Published(version=DrafterVersion(0), weights=weights, steps=0, tokens=0), weights)

    def estimated_s(self, rollouts: Sequence[RecordedRollout], epochs: int) -> float:
        """Return an estimate of the seconds that `train` takes, from the time of one response and one micro-step."""
        training, _ = split(rollouts)
        self._choose_tokens(training)
        longest = max(training[:AT_ONCE], key=lambda rollout: len(rollout.token_ids))
        began_s = time.perf_counter()
        frames = self._windows(longest, "0/0")
        states_s = (time.perf_counter() - began_s) / len(longest.token_ids)
        if not frames:  # nothing to learn from: `train` says so
            return 0.0
        pack = collate(next(iter(plan(frames, BATCH_TOKENS, random.Random(0)))), self._device)
        for _ in range(2):  # the first one also compiles and allocates
            began_s = time.perf_counter()
            self._learner.micro_step(pack, steps=False)
        step_s = (time.perf_counter() - began_s) / pack.tokens
        self._learner.discard()
        return states_in(training) * (states_s + epochs * step_s)

    def train(
        self,
        rollouts: Sequence[RecordedRollout],
        work: Path,
        asked: dict[str, Any],
        *,
        epochs: int,
        seed: int,
        report: Callable[[Progress], None],
    ) -> tuple[dict[str, bytes], Score, TrainingCourse]:
        """
        Train; return the drafter's files, its score and the training progress. One prompt in eight, at least one, is
        held out.

        The tokens that an EAGLE-3 head, or the loss, covers are chosen from the responses first.

        Args:
            rollouts: Data.
            work: Directory for states and checkpoints, from which an interrupted call continues.
            asked: Identifies the arguments; another call with the same directory must have equal ones.
            epochs: Passes over the data, at least one.
            seed: Seed of the order.
            report: Called after every part of a pass.

        Raises:
            ConfigError: There are fewer than two different prompts, or no tokens to score on; or `work` belongs to a
                training with other arguments.
            WeightsError: A loss is not finite.
            OSError: `work` cannot be written.
        """
        training, held_out = split(rollouts)
        self._choose_tokens(training)
        course, snapshot = courses.begun(work, asked)
        if snapshot is not None:
            self._learner.restore(snapshot)
        stored = self._stored(work, course)
        # Named apart from the training data, whose states are stored under numbers from 0.
        some = list(enumerate(first_with(held_out, SCORED_STATES), len(training)))
        score = self._score(some, stored.frames)  # now: without a token to score on, no pass should begin
        self._learner.planned_tokens = epochs * states_in(training)
        total, per_score = epochs * states_in(training), max(1, epochs * states_in(training) // SCORES)
        began_s, before_s, before_tokens = time.perf_counter(), course.seconds, self._learner.counters.tokens
        saved_s, scored_s = began_s, 0.0
        while course.epoch < epochs:
            order = order_of(training, seed, course.epoch)
            while course.part * AT_ONCE < len(order):
                loss = self._part(order, course, seed, stored)
                course.part += 1
                tokens = self._learner.counters.tokens
                now_s = time.perf_counter()
                course.seconds = before_s + now_s - began_s - scored_s
                is_last = course.part * AT_ONCE >= len(order)
                scored_tokens = course.curve[-1][0] if course.curve else 0
                if is_due := is_last or tokens - scored_tokens >= per_score:
                    score = self._score(some, stored.frames)
                    course.curve.append([tokens, round(course.seconds, 1), round(score.accept_length, 4)])
                    scored_s += time.perf_counter() - now_s
                speed = (tokens - before_tokens) / max(1e-9, course.seconds - before_s)
                report(
                    Progress(
                        epoch=course.epoch + 1,
                        tokens=tokens,
                        total_tokens=total,
                        seconds=course.seconds,
                        left_s=max(0, total - tokens) / max(1e-9, speed),
                        loss=loss,
                        score=score if is_due else None,
                    )
                )
                if time.perf_counter() - saved_s >= SAVE_EVERY_S:
                    self._save(work, course, stored)
                    saved_s = time.perf_counter()
            course.epoch, course.part = course.epoch + 1, 0
        self._save(work, course, stored)
        score = self.score(held_out)
        return to_files(self._learner.weights(), self._learner.form, self._meta(score)), score, course

    def score(self, rollouts: Sequence[RecordedRollout], *, temperature: float = 1.0) -> Score:
        """
        Score the averaged weights on all positions of these responses, with drafts sampled at this temperature.

        Raises:
            ConfigError: There are no positions, since all responses have one token.
        """
        return self._score(list(enumerate(rollouts)), self._windows, temperature=temperature)

    def _score(
        self,
        rollouts: Sequence[Numbered],
        frames_of: Callable[[RecordedRollout, str], Frames],
        *,
        temperature: float = 1.0,
    ) -> Score:
        packs = self._packs(rollouts, random.Random(0), frames_of)
        score = score_of(self._learner.tally(pack, temperature=temperature) for pack in packs)
        if score is None:
            raise ConfigError("--data has no token to score on; its responses must have several tokens", field="data")
        return score

    def coverage(self, rollouts: Sequence[RecordedRollout]) -> float:
        """Return the share of the responses' tokens that are draft tokens."""
        tokens_D = self._learner.tokens
        return (
            1.0
            if tokens_D is None
            else counted(rollouts, self._learner.form.vocab_size).coverage(tokens_D.cpu().numpy())
        )

    def _choose_tokens(self, rollouts: Sequence[RecordedRollout]) -> None:
        counts = counted(rollouts, self._learner.form.vocab_size)
        if (rows := self._learner.rows) is not None:
            rows.choose(counts)
        if (tokens_D := self._learner.tokens) is not None:
            better_D = counts.better_than(tokens_D.cpu().numpy())
            if better_D is not None:
                self._learner.choose(torch.from_numpy(better_D))

    def _part(self, order: Sequence[Numbered], course: TrainingCourse, seed: int, stored: StoredStates) -> float:
        """Train on a part of a pass; return the mean loss."""
        part = order[course.part * AT_ONCE : (course.part + 1) * AT_ONCE]
        rng = random.Random(f"{seed}/{course.epoch}/{course.part}")
        losses = [self._learner.micro_step(pack) for pack in self._packs(part, rng, stored.frames)]
        return sum(losses) / max(1, len(losses))

    def _packs(
        self, rollouts: Sequence[Numbered], rng: random.Random, frames_of: Callable[[RecordedRollout, str], Frames]
    ) -> Iterator[Pack]:
        for first in range(0, len(rollouts), AT_ONCE):
            some = rollouts[first : first + AT_ONCE]
            frames = [frame for number, one in some for frame in frames_of(one, f"{number}/0")]
            for group in plan(frames, BATCH_TOKENS, rng):
                yield collate(group, self._device)

    def _windows(self, rollout: RecordedRollout, name: str) -> Frames:
        layers = self._learner.form.layers
        states_NC = states_of(self._policy, rollout, layers=layers)
        return windows_of(states_NC, rollout, name, frame_tokens=BATCH_TOKENS, layers=layers)

    def _stored(self, work: Path, course: TrainingCourse) -> StoredStates:
        form = self._learner.form
        places = {name: (first, count) for name, (first, count) in course.places.items()}
        size = form.hidden_size * (1 + len(form.layers))
        return StoredStates(work, places, self._policy, layers=tuple(form.layers), size=size, frame_tokens=BATCH_TOKENS)

    def _save(self, work: Path, course: TrainingCourse, stored: StoredStates) -> None:
        course.places = {name: list(place) for name, place in stored.places.items()}
        courses.save(work, course, self._learner.snapshot())

    def _meta(self, score: Score) -> DrafterMeta:
        counters = self._learner.counters
        return DrafterMeta(
            version=1,
            base=0,
            worker_id=AUTHOR,
            steps=counters.steps,
            tokens=self._learner.tokens_before + counters.tokens,
            held_out_top1=score.top1,
        )
