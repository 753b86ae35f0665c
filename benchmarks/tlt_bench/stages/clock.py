"""CPU seconds of one thread by stage: each is charged what it takes beside the stages within it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Path = tuple[str, ...]


@dataclass(slots=True)
class StageClock:
    """Times nested stages. Not by the wall: other threads of a busy machine would count."""

    now_s: Callable[[], float] = time.thread_time
    spent: dict[Path, tuple[int, float]] = field(default_factory=dict)
    """Calls and own CPU seconds by the stages around it and its name."""
    _open: list[str] = field(default_factory=list)
    _since_s: float | None = None

    def run(self, stage: str, call: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        """Return what `call` returns, and charge its time to a stage."""
        self._charge()
        self._open.append(stage)
        calls, own_s = self.spent.get(tuple(self._open), (0, 0.0))
        self.spent[tuple(self._open)] = calls + 1, own_s
        try:
            return call(*args, **kw)
        finally:
            self._charge()
            self._open.pop()

    def take(self) -> dict[Path, tuple[int, float]]:
        """Return what was spent since the last call; what is outside of every stage is under the empty path."""
        self._charge()
        taken, self.spent = self.spent, {}
        return taken

    def _charge(self) -> None:
        now_s = self.now_s()
        if self._since_s is not None:
            calls, own_s = self.spent.get(tuple(self._open), (0, 0.0))
            self.spent[tuple(self._open)] = calls, own_s + now_s - self._since_s
        self._since_s = now_s
