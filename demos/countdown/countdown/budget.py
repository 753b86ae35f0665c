"""Time budget of the trainer. Pure: the caller passes the time."""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class TimeBudget:
    """
    Ends a run after a whole step: no step begins that would exceed the budget if it took as long as the last one.

    The first `min_steps` run regardless of time, so that a slow machine also completes a whole cycle.
    """

    ends_unix_s: float
    min_steps: int = 1
    _steps: int = 0
    _began_unix_s: float | None = None
    _step_s: float = 0.0

    def begin(self, now_unix_s: float) -> None:
        """Record that a step begins."""
        self._began_unix_s = now_unix_s

    def allows_another(self, now_unix_s: float) -> bool:
        """Return whether another step may begin. Call once at the end of each step."""
        self._steps += 1
        if self._began_unix_s is not None:
            self._step_s = now_unix_s - self._began_unix_s
        return self._steps < self.min_steps or now_unix_s + self._step_s <= self.ends_unix_s
