"""
Chooses the arm of each round and records its reward.

The bandit chooses among the arms that can run: learned arms once a drafter is loaded, and only arms whose workspace
fits. Speculation stays off for requests that disable it or cannot be drafted for, and an arm can be forced. A reward
counts the whole round as seen by the scheduler: draft, verify and draft-extend. If too few drafts are found another arm
runs, and the reward is attributed to that arm.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tlt_common.bandit import Bandit
from tlt_common.bandit.round_trace import TracedRound
from tlt_common.domain.arm import OFF, Arm
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.tuner import Posterior, RoundReport
from tlt_worker.scheduler.arms.choice import ArmChoice
from tlt_worker.scheduler.arms.trace_file import TraceFile

REPORT_S = 0.5
"""Interval of reports. Rounds are reported in batches: one message per round would cost more than it is worth."""

MIN_FOUND = 0.25
"""Minimum share of the drafts that must be found; missing drafts are verified in vain."""


def fits_always(arm: Arm, batch: int) -> bool:
    """Return True: an arm's workspace always fits where memory is not limited."""
    del arm, batch
    return True


@dataclass(slots=True, kw_only=True)
class ArmSwitching:
    """Chooses arms in one scheduler process. Rank 0 of a tensor-parallel group decides for all ranks."""

    bandit: Bandit
    report: Callable[[RoundReport], object]
    clock: Callable[[], float]
    fits: Callable[[Arm, int], bool] = fits_always
    """Whether an arm's workspace fits at this number of running requests."""
    trace: TraceFile | None = None
    """File that rounds are written to; None: rounds are not traced."""
    drafter_version: DrafterVersion = DrafterVersion(0)
    has_drafter: bool = False
    """Whether a drafter has been loaded. Version 0 is the head of the target's checkpoint."""
    policy_changes: int = 0
    index_bytes: Callable[[], int] = int
    """Memory held by draft sources, for reports."""
    forced: Sequence[Arm] = ()
    """Arms to run in turn, one round each, instead of the bandit's choice. Off replaces arms that cannot run."""
    warms: bool = False
    """Whether the engine is warming up: arms run without a drafter or found drafts, and rounds are not recorded."""
    recomputed_tokens: int = 0
    """Tokens since the last report; see `RoundReport`. Counted by the worker."""
    caught_up_tokens: int = 0
    """Tokens since the last report, as `recomputed_tokens`."""
    prefilled_tokens: int = 0
    prefill_s: float = 0.0
    _turn: int = 0
    _latest: Arm = OFF
    _switches: int = 0
    _completed_s: float = 0.0
    _reported_s: float = 0.0

    def launch(
        self, batch: int, *, blocked: bool, find: Callable[[Arm], int] | None = None, kv_tokens: int = 0
    ) -> ArmChoice:
        """
        Choose the arm of a round that is about to start.

        Args:
            batch: Number of running requests.
            blocked: Whether drafts are not allowed in this round.
            find: Looks up an arm's drafts and returns their number over all requests; called for arms that find their
                drafts. None counts all drafts as found.
            kv_tokens: Tokens of the requests in the KV cache.
        """
        launched_s = self.clock()  # the lookup is part of the round
        arm, drafted = self._choose(batch, blocked=blocked), None
        if arm.finds_drafts and find is not None:
            drafted = find(arm)
            if drafted < MIN_FOUND * arm.steps * batch and not self.warms:
                arm, drafted = self._stand_in(batch), None
        self._switches += arm != self._latest
        self._latest = arm
        return ArmChoice(
            arm=arm,
            drafted=drafted,
            launched_s=launched_s,
            drafter_version=self.drafter_version,
            kv_tokens=kv_tokens,
        )

    def followed(self, arm: Arm) -> ArmChoice:
        """Return rank 0's choice as the other ranks know it, which earns no reward there."""
        return ArmChoice(arm=arm, drafted=None, launched_s=self.clock(), drafter_version=self.drafter_version)

    def allowed(self, batch: int) -> tuple[Arm, ...]:
        """Return the arms that can run with `batch` requests, off first."""
        return tuple(arm for arm in self.bandit.arms if self._can_run(arm, batch))

    def drafter_pays(self, batch: int) -> bool:
        """Whether, from what is known, an arm that needs the drafter is likely to run soon with `batch` requests."""
        return bool(self.forced) or self.bandit.drafter_pays(batch)

    def complete(self, done: ArmChoice, accepted: Sequence[int]) -> None:
        """
        Record a round that is being processed: accepted draft tokens per request.

        With overlapped scheduling the next round is launched before this one completes, so a round's time runs from its
        launch or from the completion of the previous round, whichever is later.
        """
        begun_s = max(done.launched_s, self._completed_s)
        now_s = self.round_ended()
        if self.warms:
            return
        elapsed_s = now_s - begun_s
        is_current = done.drafter_version == self.drafter_version or not done.arm.needs_drafter
        if accepted and elapsed_s > 0 and is_current:
            drafted = done.arm.drafted_tokens * len(accepted) if done.drafted is None else done.drafted
            drafted = max(drafted, sum(accepted))  # the padding of a missing draft may be accepted too
            self.bandit.record(done.arm, len(accepted), accepted, elapsed_s, drafted=drafted, kv_tokens=done.kv_tokens)
            if self.trace is not None:
                self.trace.write(self._round(now_s, done.arm, accepted, elapsed_s, drafted))
        if now_s - self._reported_s >= REPORT_S:
            self.flush()

    def prefilled(self, tokens: int, launched_s: float) -> None:
        """Record a round that ran prefill. Its duration is measured as in `complete`."""
        begun_s = max(launched_s, self._completed_s)
        elapsed_s = self.round_ended() - begun_s
        if not self.warms and tokens > 0:
            self.prefilled_tokens += tokens
            self.prefill_s += max(0.0, elapsed_s)

    def round_ended(self) -> float:
        """Record that a round of any kind has run; return the time. The next round is not charged for it."""
        self._completed_s = self.clock()
        return self._completed_s

    def flush(self) -> None:
        """Report the rounds recorded since the last report."""
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
                    prefilled_tokens=self.prefilled_tokens,
                    prefill_s=self.prefill_s,
                )
            )
            self._switches = self.recomputed_tokens = self.caught_up_tokens = self.prefilled_tokens = 0
            self.prefill_s = 0.0

    def drafter_loaded(self, version: DrafterVersion) -> None:
        """Switch to a new drafter version."""
        self.flush()
        self.drafter_version, self.has_drafter = version, True
        self.bandit.drafter_changed()

    def policy_loaded(self) -> None:
        """Switch to new policy weights."""
        self.flush()
        self.policy_changes += 1
        self.bandit.policy_changed()

    def merge(self, posterior: Posterior) -> None:
        """Merge the fleet's posterior. If it belongs to another drafter, merge only the arms that do not use one."""
        if posterior.drafter_version != self.drafter_version:
            unlearned = {arm.name for arm in self.bandit.arms if not arm.needs_drafter}
            posterior = replace(posterior, arms=tuple(arm for arm in posterior.arms if arm.arm in unlearned))
        self.bandit.merge(posterior)

    def _round(self, now_s: float, arm: Arm, accepted: Sequence[int], elapsed_s: float, drafted: int) -> TracedRound:
        return TracedRound(
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
        """Return the arm for a round with too few found drafts; off if the arm was forced."""
        if self.forced:
            return OFF
        others = tuple(arm for arm in self.allowed(batch) if not arm.finds_drafts)
        return self.bandit.stand_in(batch, others)

    def _can_run(self, arm: Arm, batch: int) -> bool:
        is_ready = self.has_drafter or self.warms or not arm.needs_drafter
        return arm == OFF or (is_ready and self.fits(arm, batch))
