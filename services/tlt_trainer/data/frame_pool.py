"""Frames in memory, for training and held out for scoring."""

import random
from collections.abc import Iterable
from enum import StrEnum

from tlt_common.domain.hidden import FrameHeader
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.token_counts import TokenCounts
from tlt_trainer.data.frame import TrainingFrame, generated_ids
from tlt_trainer.data.held_out import HeldOutPrompts
from tlt_trainer.data.pack import scored_count

_Key = tuple[str, int, int]
NEWEST_TOKENS = 16_384
"""States that count as the newest. After a change of prompts, 60,000 states drawn from 186,000 older and 12,000 newer
ones lead to an accept length of 4.6 on the new prompts, drawn evenly to 3.7; with half as many newest, to 4.5."""


class Defect(StrEnum):
    """Why a frame is not used for training; `reason` of a metric."""

    INVALID = "invalid"
    """It cannot be decoded, or its ids are not in the policy's vocabulary."""
    OTHER_LAYERS = "other_layers"
    """Its states come from other layers than the drafter reads: its engine runs another kind of drafter."""
    OTHER_SIZE = "other_size"
    """Its states do not have the policy's size."""
    NOTHING_GENERATED = "nothing_generated"
    """It has no scored entry."""


def defect_of(header: FrameHeader, form: DrafterFormat) -> Defect | None:
    """Return why a drafter of this format cannot train on a frame, or None if it can."""
    if header.layers != form.layers:
        return Defect.OTHER_LAYERS
    if header.hidden_size != form.captured_size:
        return Defect.OTHER_SIZE
    return None if scored_count(header) > 0 else Defect.NOTHING_GENERATED


class FramePool:
    """
    The newest frames within a byte budget, without duplicates. Draws are seeded.

    Args:
        budget_bytes: Budget of training frames; held-out frames get an additional eighth of it.
        said: Counts the generated tokens of all frames; None does not count them.
    """

    def __init__(self, *, budget_bytes: int, said: TokenCounts | None = None, seed: int = 0) -> None:
        self._said = said
        self.drawn_tokens = 0
        """States drawn so far, each as often as it was drawn."""
        self.added_tokens = 0
        """States of all frames that were added so far, also of those that were evicted."""
        self._rng = random.Random(seed)
        self._prompts = HeldOutPrompts()
        self._training = _BoundedFrames(budget_bytes)
        self._held_out = _BoundedFrames(budget_bytes // 8)

    @property
    def training_tokens(self) -> int:
        """Number of training states."""
        return self._training.tokens

    @property
    def held_out_tokens(self) -> int:
        """Number of held-out states."""
        return self._held_out.tokens

    @property
    def passes(self) -> float:
        """Average number of times that the training states were drawn."""
        return self._training.drawn / max(1, self._training.tokens)

    def holds(self, header: FrameHeader) -> bool:
        """Return whether this frame is in the pool and need not be decoded again."""
        return self._training.holds(header) or self._held_out.holds(header)

    def add(self, frames: Iterable[TrainingFrame]) -> int:
        """Add frames, newest last; return how many are new."""
        return sum(self._add(frame) for frame in frames)

    def draw(self, tokens: int) -> list[TrainingFrame]:
        """
        Return distinct random training frames with at least this many states, or all frames if there are fewer.

        Half of the states come from the newest frames, the rest from all others: the current policy is learned first,
        and earlier ones are not forgotten.
        """
        newest, others = self._training.parted(NEWEST_TOKENS)
        self._rng.shuffle(newest)
        drawn = _until(newest, tokens // 2)
        others += newest[len(drawn) :]
        self._rng.shuffle(others)
        drawn += _until(others, tokens - _tokens(drawn))
        self.drawn_tokens += _tokens(drawn)
        self._training.note_drawn(drawn)
        return drawn

    def held_out(self, tokens: int) -> list[TrainingFrame]:
        """Return the newest held-out frames with at least this many states, or all of them if there are fewer."""
        return _until(self._held_out.frames()[::-1], tokens)

    def _add(self, frame: TrainingFrame) -> bool:
        if self.holds(frame.header):
            return False
        if self._prompts.see(frame.header.prompt_hash):
            self._release()
        if self._said is not None:
            self._said.add(generated_ids(frame))
        is_new = self._frames_for(frame.header).put(frame)
        self.added_tokens += frame.header.token_count if is_new else 0
        return is_new

    def _release(self) -> None:
        """Move the frames of prompts that are no longer held out to the training frames."""
        for frame in self._held_out.frames():
            if not self._prompts.holds_out(frame.header.prompt_hash):
                self._held_out.drop(frame.header)
                self._training.put(frame)

    def _frames_for(self, header: FrameHeader) -> "_BoundedFrames":
        return self._held_out if self._prompts.holds_out(header.prompt_hash) else self._training


class _BoundedFrames:
    """Frames ordered by policy and arrival. The oldest are evicted first."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._frames: dict[_Key, TrainingFrame] = {}
        self._used_bytes = 0
        self._draws: dict[_Key, int] = {}
        self.tokens = 0
        self.drawn = 0
        """States of the frames that are held, each as often as it was drawn."""

    def frames(self) -> list[TrainingFrame]:
        return list(self._frames.values())

    def parted(self, tokens: int) -> tuple[list[TrainingFrame], list[TrainingFrame]]:
        """Return the newest frames with at least this many states, and the others."""
        frames = self.frames()
        newest = _until(frames[::-1], tokens)
        return newest, frames[: len(frames) - len(newest)]

    def note_drawn(self, frames: list[TrainingFrame]) -> None:
        for frame in frames:
            self._draws[_key(frame.header)] = self._draws.get(_key(frame.header), 0) + 1
        self.drawn += _tokens(frames)

    def holds(self, header: FrameHeader) -> bool:
        return _key(header) in self._frames

    def put(self, frame: TrainingFrame) -> bool:
        header = frame.header
        if header.payload_bytes > self._budget_bytes:
            return False
        while self._used_bytes + header.payload_bytes > self._budget_bytes:
            self._drop(min(self._frames, key=lambda old: old[1]))
        self._frames[_key(header)] = frame
        self._used_bytes += header.payload_bytes
        self.tokens += header.token_count
        return True

    def drop(self, header: FrameHeader) -> None:
        self._drop(_key(header))

    def _drop(self, key: _Key) -> None:
        header = self._frames.pop(key).header
        self.drawn -= self._draws.pop(key, 0) * header.token_count
        self._used_bytes -= header.payload_bytes
        self.tokens -= header.token_count


def _key(header: FrameHeader) -> _Key:
    return header.request_id, header.policy_version, header.start


def _tokens(frames: Iterable[TrainingFrame]) -> int:
    return sum(frame.header.token_count for frame in frames)


def _until(frames: list[TrainingFrame], tokens: int) -> list[TrainingFrame]:
    taken: list[TrainingFrame] = []
    for frame in frames:
        if tokens <= 0:
            break
        taken.append(frame)
        tokens -= frame.header.token_count
    return taken
