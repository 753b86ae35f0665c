"""
Which arm runs a round, and what it brought.

The bandit decides among the arms that can run: learned ones once a drafter is loaded, and none whose workspace does
not fit. Speculation stays off for a request that asked for it or needs it, and an arm may be forced. Rewards count
the whole round as the scheduler sees it: draft, verify and draft-extend. Where retrieval finds too little another arm
runs, and the reward is that one's.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tlt_common.bandit import Bandit
from tlt_common.bandit.trace import Round
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.strategy import OFF, Arm, DrafterKind
from tlt_common.domain.tuner import Posterior, RoundReport
from tlt_worker.engine.trace import TraceFile

REPORT_S = 0.5
"""Rounds are reported together: one message per round would cost more than the rounds tell."""

LEAST_FOUND = 0.25
"""Share of an n-gram arm's drafts that must be there: the rest is verified for nothing."""


def fits_always(arm: Arm, batch: int) -> bool:
    """Whether an arm's workspace fits where memory is no limit."""
    del arm, batch
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    arm: Arm
    drafted: int | None
    """Tokens retrieved for all requests; None: as many as the arm drafts."""
    launched_s: float


@dataclass(slots=True, kw_only=True)
class Switch:
    """Chooses arms in one scheduler process. Rank 0 of a tensor-parallel group decides for all."""

    bandit: Bandit
    report: Callable[[RoundReport], object]
    clock: Callable[[], float]
    fits: Callable[[Arm, int], bool] = fits_always
    """Whether an arm's workspace fits with so many requests running."""
    trace: TraceFile | None = None
    """Where rounds are written down; None: nowhere."""
    drafter_version: DrafterVersion = DrafterVersion(0)
    policy_changes: int = 0
    index_bytes: Callable[[], int] = int
    """Memory that retrieval holds, for reports."""
    forced: Sequence[Arm] = ()
    """Run in turn, one round each, instead of what the bandit would choose; off in place of one that cannot run."""
    recomputed_tokens: int = 0
    """Since the last report; see `RoundReport`. The worker counts."""
    caught_up_tokens: int = 0
    """Same."""
    _turn: int = 0
    _latest: Arm = OFF
    _switches: int = 0
    _launched: deque[_Round] = field(default_factory=deque)
    _completed_s: float = 0.0
    _reported_s: float = 0.0

    @property
    def has_drafter(self) -> bool:
        """Whether a real drafter was ever loaded."""
        return self.drafter_version > 0

    def launch(self, batch: int, *, blocked: bool, find: Callable[[int], int] | None = None) -> Arm:
        """
        Choose the arm of a round that starts now.

        Args:
            batch: Running requests.
            blocked: A request in it must not be drafted for.
            find: Retrieves up to so many tokens per request and returns how many there are in all. None: all of them.
        """
        launched_s = self.clock()  # looking things up is part of the round
        arm, drafted = self._choose(batch, blocked=blocked), None
        if arm.kind is DrafterKind.NGRAM and find is not None:
            drafted = find(arm.steps)
            if drafted < LEAST_FOUND * arm.steps * batch:
                arm, drafted = self._stand_in(batch), None
        self._switches += arm != self._latest
        self._latest = arm
        self._launched.append(_Round(arm=arm, drafted=drafted, launched_s=launched_s))
        return arm

    def allowed(self, batch: int) -> tuple[Arm, ...]:
        """Arms that can run with `batch` requests, off first."""
        return tuple(arm for arm in self.bandit.arms if self._can_run(arm, batch))

    def complete(self, accepted: Sequence[int]) -> None:
        """
        Record the oldest launched round: draft tokens kept per request.

        With overlapped scheduling the next round is launched before this one completes, so that a round's time runs
        from its launch or from the completion of the one before, whichever is later.
        """
        if not self._launched:
            return
        done = self._launched.popleft()
        now_s = self.clock()
        elapsed_s = now_s - max(done.launched_s, self._completed_s)
        self._completed_s = now_s
        if accepted and elapsed_s > 0:
            drafted = done.arm.drafted_tokens * len(accepted) if done.drafted is None else done.drafted
            drafted = max(drafted, sum(accepted))  # even what stands for a missing draft may be right
            self.bandit.record(done.arm, len(accepted), accepted, elapsed_s, drafted=drafted)
            if self.trace is not None:
                self.trace.write(self._round(now_s, done.arm, accepted, elapsed_s, drafted))
        if now_s - self._reported_s >= REPORT_S:
            self.flush()

    def flush(self) -> None:
        """Report what was recorded since the last report."""
        self._reported_s = self.clock()
        if self.trace is not None:
            self.trace.flush()
        windows = self.bandit.windows()
        if windows:
            self.report(
                RoundReport(
                    drafter_version=self.drafter_version,
                    arms=windows,
                    switches=self._switches,
                    index_bytes=self.index_bytes(),
                    recomputed_tokens=self.recomputed_tokens,
                    caught_up_tokens=self.caught_up_tokens,
                )
            )
            self._switches = self.recomputed_tokens = self.caught_up_tokens = 0

    def drafter_loaded(self, version: DrafterVersion) -> None:
        """Begin with another drafter."""
        self.flush()
        self.drafter_version = version
        self.bandit.drafter_changed()

    def policy_loaded(self) -> None:
        """Begin with other weights."""
        self.flush()
        self.policy_changes += 1
        self.bandit.policy_changed()

    def merge(self, posterior: Posterior) -> None:
        """Take over what the fleet has learned; with another drafter, of arms that do not use it only."""
        if posterior.drafter_version != self.drafter_version:
            unlearned = {arm.name for arm in self.bandit.arms if not arm.learned}
            posterior = replace(posterior, arms=tuple(arm for arm in posterior.arms if arm.arm in unlearned))
        self.bandit.merge(posterior)

    def _round(self, now_s: float, arm: Arm, accepted: Sequence[int], elapsed_s: float, drafted: int) -> Round:
        return Round(
            at_s=now_s,
            arm=arm,
            accepted=tuple(accepted),
            elapsed_s=elapsed_s,
            drafted=drafted,
            drafter=self.drafter_version,
            policy=self.policy_changes,
        )

    def _choose(self, batch: int, *, blocked: bool) -> Arm:
        if blocked:
            return OFF
        if self.forced:
            self._turn += 1
            arm = self.forced[(self._turn - 1) % len(self.forced)]
            return arm if self._can_run(arm, batch) else OFF
        return self.bandit.choose(batch, self.allowed(batch))

    def _stand_in(self, batch: int) -> Arm:
        """Return the arm for a round in which retrieval finds too little; off, if that was forced."""
        if self.forced:
            return OFF
        others = tuple(arm for arm in self.allowed(batch) if arm.kind is not DrafterKind.NGRAM)
        return self.bandit.stand_in(batch, others)

    def _can_run(self, arm: Arm, batch: int) -> bool:
        return arm == OFF or ((self.has_drafter or not arm.learned) and self.fits(arm, batch))
