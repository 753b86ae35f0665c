"""Says what the parts of a run are doing while they start, and at once why a worker cannot."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Never

from tlt_common.errors import ConfigError
from tlt_common.start_phase import phase_file
from tlt_local.supervision.home import Home

LOOK_S = 0.25
QUIET_S = 8.0
"""Seconds without a line after which the watch says what it waits for."""
FIRST = "starting its process"


@dataclass(slots=True, kw_only=True)
class _Part:
    """A part that does not serve yet."""

    began_s: float
    phase: str
    entered_s: float
    """When the phase began."""
    host: str
    """The process that runs it until it has a phase of its own."""


class StartWatch:
    """
    Reports each part that becomes ready and, at least every QUIET_S, the phases of the others.

    Args:
        home: Files of the run. Processes write their phases and addresses there.
        say: Called with a line.
        failure: Returns why a worker did not start; empty while none has failed.
    """

    def __init__(self, home: Home, say: Callable[[str], None], failure: Callable[[], str]) -> None:
        self._home, self._failure = home, failure
        self._tell = say
        self._parts: dict[str, _Part] = {}
        self._said_s = self._now_s

    def say(self, line: str) -> None:
        """Say a line."""
        self._said_s = self._now_s
        self._tell(line)

    def expect(self, name: str, *, host: str = "", phase: str = FIRST) -> None:
        """
        Wait for a part.

        Args:
            name: Name of the part, and of its files.
            host: Name of the process that starts it; empty if it is one itself.
            phase: Its first phase.
        """
        now_s = self._now_s
        self._parts[name] = _Part(began_s=now_s, phase=phase, entered_s=now_s, host=host)

    def done(self, name: str) -> None:
        """Say that a part is ready. Idempotent."""
        if part := self._parts.pop(name, None):
            self.say(f"{name} is ready ({self._now_s - part.began_s:.0f} s)")

    async def run(self) -> Never:
        """
        Report until cancelled.

        Raises:
            ConfigError: A worker did not start.
        """
        while True:
            if why := self._failure():
                raise ConfigError(f"workers did not start: {why}")
            self._look()
            if self._parts and self._now_s - self._said_s >= QUIET_S:
                self.say(self._waiting())
            await asyncio.sleep(LOOK_S)

    def _look(self) -> None:
        """Follow the files of the parts."""
        for name, part in tuple(self._parts.items()):
            if self._home.addresses(name).exists():
                self.done(name)
                continue
            phase = self._phase_of(name) or self._phase_of(part.host) or part.phase
            if phase != part.phase:
                part.phase, part.entered_s = phase, self._now_s

    def _phase_of(self, process: str) -> str:
        file = phase_file(self._home.addresses(process)) if process else None
        with suppress(FileNotFoundError):
            return file.read_text() if file else ""
        return ""

    def _waiting(self) -> str:
        """Return what is waited for, parts in the same phase together."""
        phases: dict[str, list[str]] = {}
        for name, part in self._parts.items():
            phases.setdefault(part.phase, []).append(name)
        return "waiting for " + ", and for ".join(
            f"{', '.join(names)}: {phase} ({self._now_s - min(self._parts[name].entered_s for name in names):.0f} s)"
            for phase, names in phases.items()
        )

    @property
    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()
