"""Records the arrival of the tokens of a set of responses."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tlt_bench.engines.commands import ArmSwitch, Timing
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk


def cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU seconds used by processes. Other load on the machine affects CPU time less than elapsed time."""
    tasks = (task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir())
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


@dataclass(slots=True)
class Track:
    """One response."""

    prompt: Prompt
    max_tokens: int
    """Length of the response in tokens."""
    at_s: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """Tokens of each chunk."""
    rounds: int = 0


@dataclass(slots=True, kw_only=True)
class ResponseLog:
    """All responses of one `Generate`."""

    switches: Sequence[ArmSwitch]
    force: Callable[[str], object]
    pids: Sequence[int]
    _begun: asyncio.Event = field(default_factory=asyncio.Event)
    _tracks: list[Track] = field(default_factory=list)
    _began_s: float = field(default_factory=time.perf_counter)
    _switched_s: list[float] = field(default_factory=list)
    _window: list[tuple[float, float]] = field(default_factory=list)
    """Time and CPU time at the start and the end of the window."""

    @property
    def begun(self) -> asyncio.Event:
        """Set when every response has its first token."""
        return self._begun

    def track(self, prompt: Prompt, max_tokens: int) -> Track:
        """Register a response of `max_tokens` tokens."""
        self._tracks.append(Track(prompt, max_tokens))
        return self._tracks[-1]

    async def follow(self, track: Track, chunks: AsyncIterator[TokenChunk]) -> None:
        """Record one response as it arrives."""
        async for chunk in chunks:
            track.at_s.append(time.perf_counter() - self._began_s)
            track.tokens.append(len(chunk.token_ids))
            if chunk.stats is not None:
                track.rounds = chunk.stats.rounds
            self._update_window(track)
            if track is self._tracks[0]:
                self._switch(sum(track.tokens))
        if len(self._window) == 1:
            self._mark()

    def timing(self) -> Timing:
        """Return the timing of all responses."""
        (began_s, began_cpu_s), (ended_s, ended_cpu_s) = self._window
        first_end = min(self._tracks, key=lambda track: track.at_s[-1])
        inside = [
            count for track in self._tracks for at_s, count in zip(track.at_s, track.tokens, strict=True)
            if began_s < at_s <= ended_s
        ]  # fmt: skip
        return Timing(
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
            switched_s=tuple(self._switched_s),
        )

    def _update_window(self, track: Track) -> None:
        """Start or end the window if a chunk of `track` marks its start or end."""
        begins = not self._window and all(each.at_s for each in self._tracks)
        ends = len(self._window) == 1 and sum(track.tokens) >= track.max_tokens - 1
        if begins or ends:
            self._mark()

    def _mark(self) -> None:
        self._begun.set()
        self._window.append((time.perf_counter() - self._began_s, cpu_s(self.pids)))

    def _switch(self, tokens: int) -> None:
        done = len(self._switched_s)
        if done < len(self.switches) and tokens >= self.switches[done].after_tokens:
            self.force(self.switches[done].arm)
            self._switched_s.append(time.perf_counter() - self._began_s)
