"""
Which arm runs a round, and what it brought.

The bandit decides, unless speculation must stay off (no drafter yet, or a request that asked for it or needs it) or
an arm is forced. Rewards count the whole round as the scheduler sees it: draft, verify and draft-extend.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tlt_common.bandit import Bandit
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.strategy import OFF, Arm
from tlt_common.domain.tuner import Posterior, RoundReport

REPORT_S = 0.5
"""Rounds are reported together: one message per round would cost more than the rounds tell."""


@dataclass(slots=True, kw_only=True)
class Switch:
    """Chooses arms in one scheduler process. Rank 0 of a tensor-parallel group decides for all."""

    bandit: Bandit
    report: Callable[[RoundReport], object]
    clock: Callable[[], float]
    drafter_version: DrafterVersion = DrafterVersion(0)
    forced: Sequence[Arm] = ()
    """Run in turn, one round each, instead of what the bandit would choose."""
    _turn: int = 0
    _launched: deque[tuple[Arm, float]] = field(default_factory=deque)
    _completed_s: float = 0.0
    _reported_s: float = 0.0

    @property
    def has_drafter(self) -> bool:
        """Whether a real drafter was ever loaded."""
        return self.drafter_version > 0

    def launch(self, batch: int, *, blocked: bool) -> Arm:
        """Choose the arm of a round that starts now. `blocked`: a request in it must not be drafted for."""
        arm = self._choose(batch, blocked=blocked)
        self._launched.append((arm, self.clock()))
        return arm

    def complete(self, accepted: Sequence[int]) -> None:
        """
        Record the oldest launched round: draft tokens kept per request.

        With overlapped scheduling the next round is launched before this one completes, so that a round's time runs
        from its launch or from the completion of the one before, whichever is later.
        """
        if not self._launched:
            return
        arm, launched_s = self._launched.popleft()
        now_s = self.clock()
        elapsed_s = now_s - max(launched_s, self._completed_s)
        self._completed_s = now_s
        if accepted and elapsed_s > 0:
            self.bandit.record(arm, len(accepted), accepted, elapsed_s)
        if now_s - self._reported_s >= REPORT_S:
            self.flush()

    def flush(self) -> None:
        """Report what was recorded since the last report."""
        self._reported_s = self.clock()
        windows = self.bandit.windows()
        if windows:
            self.report(RoundReport(drafter_version=self.drafter_version, arms=windows))

    def drafter_loaded(self, version: DrafterVersion) -> None:
        """Begin with another drafter."""
        self.flush()
        self.drafter_version = version
        self.bandit.drafter_changed()

    def policy_loaded(self) -> None:
        """Begin with other weights."""
        self.flush()
        self.bandit.policy_changed()

    def merge(self, posterior: Posterior) -> None:
        """Take over what the fleet has learned of the same drafter; of another it is of no use."""
        if posterior.drafter_version == self.drafter_version:
            self.bandit.merge(posterior)

    def _choose(self, batch: int, *, blocked: bool) -> Arm:
        if blocked or not self.has_drafter:
            return OFF
        if self.forced:
            self._turn += 1
            return self.forced[(self._turn - 1) % len(self.forced)]
        return self.bandit.choose(batch)
