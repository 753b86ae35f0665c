"""Frames at hand: what is trained on, and what is kept out of it for scoring."""

import random
import zlib
from collections.abc import Iterable

from tlt_common.domain.hidden import HiddenFrame
from tlt_trainer.batch import scored_count
from tlt_trainer.drafter.shape import DrafterShape

HELD_OUT_ONE_IN = 8

_Key = tuple[str, int, int]


def is_held_out(frame: HiddenFrame) -> bool:
    """
    Say whether a frame is kept out of training.

    By prompt, since the samples of one resemble each other: 8 prompts, learned well, promise more than a drafter then
    keeps on others. Samples of a batch are named `<prompt>/<sample>`.
    """
    prompt = frame.request_id.rpartition("/")[0] or frame.request_id
    return zlib.crc32(prompt.encode()) % HELD_OUT_ONE_IN == 0


def is_usable(frame: HiddenFrame, shape: DrafterShape) -> bool:
    """Say whether a frame is of this policy and has anything to learn from."""
    fits = (
        frame.hidden_size == shape.hidden_size and 0 <= min(frame.token_ids) <= max(frame.token_ids) < shape.vocab_size
    )
    return fits and scored_count(frame) > 0


class FramePool:
    """
    The newest frames within a byte budget, each once. Draws are seeded.

    Args:
        budget_bytes: Of frames to train on; held-out ones get an eighth of it on top.
    """

    def __init__(self, *, budget_bytes: int, seed: int = 0) -> None:
        self._rng = random.Random(seed)
        self._training = _Shelf(budget_bytes)
        self._held_out = _Shelf(budget_bytes // 8)

    @property
    def training_tokens(self) -> int:
        """States that may be trained on."""
        return self._training.tokens

    @property
    def held_out_tokens(self) -> int:
        """States kept for scoring."""
        return self._held_out.tokens

    def add(self, frames: Iterable[HiddenFrame]) -> int:
        """Take frames in, newest last; return how many were not here before."""
        return sum((self._held_out if is_held_out(frame) else self._training).put(frame) for frame in frames)

    def draw(self, tokens: int) -> list[HiddenFrame]:
        """Return random frames to train on, distinct, with at least so many states if there are so many."""
        frames = self._training.frames()
        self._rng.shuffle(frames)
        return _until(frames, tokens)

    def held_out(self, tokens: int) -> list[HiddenFrame]:
        """Return the newest held-out frames, with at least so many states if there are so many."""
        return _until(self._held_out.frames()[::-1], tokens)


class _Shelf:
    """Frames in the order of policy and arrival; the oldest go first."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._frames: dict[_Key, HiddenFrame] = {}
        self._used_bytes = 0
        self.tokens = 0

    def frames(self) -> list[HiddenFrame]:
        return list(self._frames.values())

    def put(self, frame: HiddenFrame) -> bool:
        key = (frame.request_id, frame.policy_version, frame.start)
        if key in self._frames or frame.size_bytes > self._budget_bytes:
            return False
        while self._used_bytes + frame.size_bytes > self._budget_bytes:
            self._drop(min(self._frames, key=lambda old: old[1]))
        self._frames[key] = frame
        self._used_bytes += frame.size_bytes
        self.tokens += frame.token_count
        return True

    def _drop(self, key: _Key) -> None:
        frame = self._frames.pop(key)
        self._used_bytes -= frame.size_bytes
        self.tokens -= frame.token_count


def _until(frames: list[HiddenFrame], tokens: int) -> list[HiddenFrame]:
    taken: list[HiddenFrame] = []
    for frame in frames:
        if tokens <= 0:
            break
        taken.append(frame)
        tokens -= frame.token_count
    return taken
