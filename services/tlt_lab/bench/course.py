"""How the answering of a set of prompts went, written down while it goes."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tlt_common.domain.rollout import Prompt, TokenChunk
from tlt_lab.bench.order import Told, Turn


def cpu_s(pids: Sequence[int]) -> float:
    """Seconds of CPU that processes have used. Other programs on the machine change it less than they change time."""
    tasks = (task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir())
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


@dataclass(slots=True)
class Track:
    """One response."""

    prompt: Prompt
    most_tokens: int
    """As long as it will be."""
    at_s: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """Of each chunk."""
    rounds: int = 0


@dataclass(slots=True, kw_only=True)
class Course:
    """All responses of one `Ask`."""

    turns: Sequence[Turn]
    force: Callable[[str], object]
    pids: Sequence[int]
    _tracks: list[Track] = field(default_factory=list)
    _began_s: float = field(default_factory=time.perf_counter)
    _turned_s: list[float] = field(default_factory=list)
    _window: list[tuple[float, float]] = field(default_factory=list)
    """Time and processor time at its ends."""

    def track(self, prompt: Prompt, most_tokens: int) -> Track:
        """Expect a response of so many tokens."""
        self._tracks.append(Track(prompt, most_tokens))
        return self._tracks[-1]

    async def follow(self, track: Track, chunks: AsyncIterator[TokenChunk]) -> None:
        """Write down one response as it comes."""
        async for chunk in chunks:
            track.at_s.append(time.perf_counter() - self._began_s)
            track.tokens.append(len(chunk.token_ids))
            if chunk.stats is not None:
                track.rounds = chunk.stats.rounds
            self._look(track)
            if track is self._tracks[0]:
                self._turn(sum(track.tokens))
        if len(self._window) == 1:
            self._mark()

    def told(self) -> Told:
        """Sum up."""
        (began_s, began_cpu_s), (ended_s, ended_cpu_s) = self._window
        first_end = min(self._tracks, key=lambda track: track.at_s[-1])
        inside = [
            count for track in self._tracks for at_s, count in zip(track.at_s, track.tokens, strict=True)
            if began_s < at_s <= ended_s
        ]  # fmt: skip
        return Told(
            seconds=max(track.at_s[-1] for track in self._tracks),
            window_began_s=began_s,
            window_s=ended_s - began_s,
            window_cpu_s=ended_cpu_s - began_cpu_s,
            window_tokens=sum(inside),
            window_rounds=sum(began_s < at_s <= ended_s for at_s in first_end.at_s),
            tokens=tuple(sum(track.tokens) for track in self._tracks),
            rounds=tuple(track.rounds for track in self._tracks),
            at_s=tuple(self._tracks[0].at_s),
            chunk_tokens=tuple(self._tracks[0].tokens),
            turned_s=tuple(self._turned_s),
        )

    def _look(self, track: Track) -> None:
        """Begin or end the window, if a chunk of `track` is where it does."""
        begins = not self._window and all(each.at_s for each in self._tracks)
        ends = len(self._window) == 1 and sum(track.tokens) >= track.most_tokens - 1
        if begins or ends:
            self._mark()

    def _mark(self) -> None:
        self._window.append((time.perf_counter() - self._began_s, cpu_s(self.pids)))

    def _turn(self, tokens: int) -> None:
        done = len(self._turned_s)
        if done < len(self.turns) and tokens >= self.turns[done].after_tokens:
            self.force(self.turns[done].arm)
            self._turned_s.append(time.perf_counter() - self._began_s)
