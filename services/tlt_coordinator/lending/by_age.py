"""Workers ordered by their latest event, so that the oldest are found without a search. Pure."""

from collections.abc import Iterator
from itertools import islice

from tlt_common.domain.ids import WorkerId


class ByAge:
    """Time of each worker's latest event. Times never decrease, so that insertion order is time order."""

    def __init__(self) -> None:
        self._at_s: dict[WorkerId, float] = {}

    def __len__(self) -> int:
        return len(self._at_s)

    def __contains__(self, worker_id: WorkerId) -> bool:
        return worker_id in self._at_s

    def mark(self, worker_id: WorkerId, now_s: float) -> None:
        """Record an event of a worker, now."""
        self._at_s.pop(worker_id, None)
        self._at_s[worker_id] = now_s

    def drop(self, worker_id: WorkerId) -> None:
        """Forget a worker. Does nothing if it is unknown."""
        self._at_s.pop(worker_id, None)

    def age_s(self, worker_id: WorkerId, now_s: float) -> float | None:
        """Return the seconds since a worker's latest event; None if it has none."""
        at_s = self._at_s.get(worker_id)
        return None if at_s is None else now_s - at_s

    def oldest(self, count: int) -> list[WorkerId]:
        """Return this many workers, oldest event first."""
        return list(islice(self._at_s, count))

    def at_least(self, age_s: float, now_s: float, count: int) -> list[WorkerId]:
        """Return at most `count` workers whose latest event is at least `age_s` ago, oldest first."""
        return list(islice(self._older(age_s, now_s), count))

    def _older(self, age_s: float, now_s: float) -> Iterator[WorkerId]:
        for worker_id, at_s in self._at_s.items():
            if now_s - at_s < age_s:
                return
            yield worker_id


class ChangeLog:
    """Workers by their latest change. Readers ask for changes since their last read."""

    def __init__(self) -> None:
        self._count = 0
        self._number: dict[WorkerId, int] = {}

    def mark(self, worker_id: WorkerId) -> None:
        """Record a change of a worker."""
        self._count += 1
        self._number.pop(worker_id, None)
        self._number[worker_id] = self._count

    def since(self, seen: int) -> tuple[int, list[WorkerId]]:
        """Return the current count, and the workers that changed after the count was `seen`, latest change first."""
        changed: list[WorkerId] = []
        for worker_id in reversed(self._number):
            if self._number[worker_id] <= seen:
                break
            changed.append(worker_id)
        return self._count, changed
