"""Finds the request that made a batch fail, by running suspects one at a time. Pure."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

MAX_FAILURES = 4
"""Failed batches without a known cause after which a request ends."""
PROVEN_ROUNDS = 4
"""Rounds after which a request is no longer a suspect."""


@dataclass(slots=True)
class Suspects:
    """
    Requests of a failed batch that have not succeeded since.

    A failed batch is retracted and its requests run again, at most one suspect at a time. If a batch with one suspect
    fails, the suspect is the cause: it ends, and the others continue.
    """

    _failures: Counter[str] = field(default_factory=Counter)
    """Failed batches of each request whose cause was not found."""
    _rounds: dict[str, int] = field(default_factory=dict)
    """Rounds of each suspect since its last failure."""

    def blame(self, batch: Collection[str]) -> set[str]:
        """Record a failed batch; return the requests to end. The others run again."""
        suspects = [name for name in batch if name in self._rounds]
        found = suspects if len(suspects) == 1 else list(batch) if len(batch) == 1 else []
        if not found:
            self._failures.update(batch)
            self._rounds.update(dict.fromkeys(batch, 0))
        ended = {*found, *(name for name in batch if self._failures[name] >= MAX_FAILURES)}
        for name in ended:
            self.forget(name)
        return ended

    def passed(self, batch: Collection[str]) -> None:
        """Record a round that succeeded."""
        for name in batch:
            if name in self._rounds:
                self._rounds[name] += 1
                if self._rounds[name] >= PROVEN_ROUNDS:
                    del self._rounds[name]

    def held_back(self, waiting: Sequence[str], running: Collection[str]) -> set[str]:
        """Return the waiting requests that must not start now."""
        suspects = [name for name in waiting if name in self._rounds]
        is_one_running = any(name in self._rounds for name in running)
        return set(suspects if is_one_running else suspects[1:])

    def forget(self, name: str) -> None:
        """Drop what is known of a request that ended."""
        self._rounds.pop(name, None)
        self._failures.pop(name, None)
