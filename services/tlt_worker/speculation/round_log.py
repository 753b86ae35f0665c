"""The engine's recent rounds, for status and metrics."""

from collections.abc import Callable

from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.arm.rounds import NO_ROUNDS, WorkedRounds
from tlt_common.domain.tuner import RoundReport
from tlt_common.telemetry import metrics
from tlt_worker.engine.base import Engine


class RoundLog:
    """The engine's recent rounds. Always collected, since the status reports them even without a tuner."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._listeners: list[Callable[[RoundReport], None]] = []
        self._latest: tuple[ArmWindow, ...] = ()
        self.worked = NO_ROUNDS
        """The last report, for those who learn what rounds cost."""

    def on_report(self, listener: Callable[[RoundReport], None]) -> None:
        """Call `listener` with every report."""
        self._listeners.append(listener)

    @property
    def arm(self) -> str:
        """Arm that most rounds of the last report used; empty before the first report."""
        return max(self._latest, key=lambda window: window.rounds).arm if self._latest else ""

    @property
    def accept_length(self) -> float:
        """Tokens per request and round in the last report, including the bonus token; 0 before the first."""
        produced = sum(window.produced_tokens for window in self._latest)
        bonus = produced - sum(window.accepted_tokens for window in self._latest)
        return produced / bonus if bonus else 0.0

    async def run(self) -> None:
        """Collect until the engine stops."""
        async for report in self._engine.reports():
            self._latest = report.arms or self._latest
            self.worked = WorkedRounds(
                serial=self.worked.serial + 1,
                arms=report.arms,
                prefilled_tokens=report.prefilled_tokens,
                prefill_s=report.prefill_s,
            )
            metrics.ARM_SWITCHES.inc(report.switches)
            metrics.NGRAM_BYTES.set(report.index_bytes)
            for window in report.arms:
                metrics.ROUNDS.labels(arm=window.arm).inc(window.rounds)
                metrics.ROUND_TOKENS.labels(arm=window.arm).inc(window.produced_tokens)
                metrics.ROUND_SECONDS.labels(arm=window.arm).inc(window.elapsed_s)
                metrics.DRAFTED_TOKENS.labels(arm=window.arm).inc(window.drafted_tokens)
                metrics.ACCEPTED_TOKENS.labels(arm=window.arm).inc(window.accepted_tokens)
            for listener in self._listeners:
                listener(report)
