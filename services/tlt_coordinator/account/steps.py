"""
Detects the steps of a run from gateways' reports: requests run, end, and then the policy changes. Pure: callers pass
the time, in Unix seconds.

A step begins with its first request and ends with its last. Requests that follow soon, under the same policy, belong to
the same step: a trainer may generate in several calls, and environments take their time between two turns. If requests
still run when the policy changes, as with an asynchronous trainer, the change ends one step and begins the next.
Announcements determine how many requests the next step will have.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from tlt_common.domain.ids import PolicyVersion
from tlt_common.load import AnnouncedRequests

KEPT_STEPS = 512
MAX_CALLERS = 65_536
SAME_STEP_S = 10.0
"""Seconds without a request after which the next one begins another step, whatever the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """One step. Times are Unix seconds."""

    number: int
    """Counts the steps that this coordinator saw."""
    policy_version: PolicyVersion
    """Newest policy when it began."""
    began_s: float
    ended_s: float | None = None
    """End time; None while requests run."""
    updated_s: float | None = None
    """Time of the policy change after it; None if there was none."""
    requests: int = 0
    """Requests that ended in it or are running."""
    tokens: int = 0
    """Tokens of responses that ended in it."""
    announced: int = 0
    """Requests announced when it began; 0 for none."""

    @property
    def source(self) -> Literal["announced", "learned"]:
        """How the step was detected."""
        return "announced" if self.announced else "learned"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyUpdate:
    """A change of the newest policy that workers serve."""

    version: PolicyVersion
    at_s: float


class Steps:
    """The latest steps, and changes of the policy."""

    def __init__(self) -> None:
        self._past: deque[RunStep] = deque(maxlen=KEPT_STEPS)
        self._last: RunStep | None = None
        self._ended = 0
        """Requests of the last step that have ended."""
        self._policy = PolicyVersion(0)
        self._updates: deque[PolicyUpdate] = deque(maxlen=KEPT_STEPS)
        self._changed_s: float | None = None
        """When the policy changed; None once what runs has been reported since."""
        self._announced: dict[tuple[str, int], int] = {}
        """Requests of the next step, by gateway and caller."""

    @property
    def number(self) -> int:
        """Number of the last step; 0 if none has begun."""
        return self._last.number if self._last else 0

    def between(self, from_s: float, to_s: float) -> list[RunStep]:
        """Return the steps that overlap a span, in order."""
        steps = [*self._past, self._last] if self._last else []
        return [
            step
            for step in steps
            if step.began_s < to_s
            and max(to_s if step.ended_s is None else step.ended_s, step.updated_s or 0.0) >= from_s
        ]

    def updates(self, from_s: float, to_s: float) -> list[PolicyUpdate]:
        """Return the changes of the policy within a span, in order."""
        return [update for update in self._updates if from_s <= update.at_s < to_s]

    def change_policy(self, version: PolicyVersion, now_s: float) -> None:
        """Record the newest policy of the fleet."""
        if version <= self._policy:
            return
        self._policy = version
        self._updates.append(PolicyUpdate(version=version, at_s=now_s))
        step = self._last
        if step is None or step.updated_s is not None:
            return
        if step.ended_s is None:
            self._changed_s = now_s  # whether the last requests ended before it is known with the next report
        else:
            self._last = replace(step, updated_s=now_s)

    def announce(self, gateway_id: str, announced: Iterable[AnnouncedRequests]) -> None:
        """Record a gateway's announcements, which belong to the next step."""
        for one in announced:
            if len(self._announced) < MAX_CALLERS or (gateway_id, one.caller) in self._announced:
                self._announced[gateway_id, one.caller] = one.count

    def report(self, active: int, now_s: float, *, ended: int = 0, tokens: int = 0) -> None:
        """
        Record gateways' reports.

        Args:
            active: Requests running or queued at all gateways.
            now_s: Current time.
            ended: Requests that ended since the last report.
            tokens: Tokens of their responses.
        """
        if ended or (self._last and self._last.ended_s is None):
            self._count(active, ended, tokens, now_s)
        self._turn(active, now_s)
        self._changed_s = None

    def _turn(self, active: int, now_s: float) -> None:
        """End the last step or begin another one, if due."""
        step = self._last
        if step is not None and step.ended_s is None:
            if self._changed_s is not None:
                self._last = replace(step, ended_s=self._changed_s, updated_s=self._changed_s)
                if active:
                    self._begin(active, self._changed_s)
            elif not active:
                self._last = replace(step, ended_s=now_s)
        elif active:
            if step and step.ended_s is not None and step.updated_s is None and now_s - step.ended_s <= SAME_STEP_S:
                self._last = replace(step, ended_s=None)
                self._count(active, 0, 0, now_s)
            else:
                self._begin(active, now_s)

    def _count(self, active: int, ended: int, tokens: int, now_s: float) -> None:
        """
        Add the reported numbers to the last step.

        Begins a step for requests that began and ended between two reports.
        """
        if self._last is None or (self._last.updated_s is not None and self._last.ended_s is not None):
            self._begin(active, now_s)
        step = self._last
        assert step is not None  # noqa: S101 - it has just begun
        self._ended += ended
        self._last = replace(step, requests=self._ended + active, tokens=step.tokens + tokens)

    def _begin(self, active: int, now_s: float) -> None:
        if self._last is not None:
            self._past.append(self._last)
        self._ended = 0
        self._last = RunStep(
            number=self.number + 1,
            policy_version=self._policy,
            began_s=now_s,
            requests=active,
            announced=sum(self._announced.values()),
        )
        self._announced.clear()
