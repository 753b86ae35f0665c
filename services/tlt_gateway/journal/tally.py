"""Sums the rounds of each minute over all workers, by device. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from tlt_common.domain.arm.rounds import WorkedRounds
from tlt_common.domain.fleet import WorkerInfo
from tlt_common.domain.ids import WorkerId
from tlt_common.journal.gateway_lines import PrefillLine, RoundsLine
from tlt_common.journal.line import Line


@dataclass(frozen=True, slots=True)
class _Kind:
    """Key of rounds that are summed together."""

    device: str
    arm: str
    batch: int
    drafter: int
    policy: int


@dataclass(slots=True)
class _Sum:
    """Totals of summed rounds."""

    rounds: int = 0
    seconds: float = 0.0
    tokens: int = 0
    accepted: int = 0
    drafted: int = 0
    kv_tokens: int = 0


class RoundsTally:
    """Sums the rounds that workers report. A repeated report counts once."""

    def __init__(self) -> None:
        self._serials: dict[WorkerId, int] = {}
        self._rounds: dict[_Kind, _Sum] = {}
        self._prefill: dict[str, tuple[int, float]] = {}

    def add(self, info: WorkerInfo, rounds: WorkedRounds) -> None:
        """Add a worker's last report, unless it was already counted."""
        if rounds.serial == self._serials.get(info.worker_id, 0):
            return
        self._serials[info.worker_id] = rounds.serial
        for window in rounds.arms:
            kind = _Kind(info.device, window.arm, window.group, info.drafter_version, info.policy_version)
            total = self._rounds.setdefault(kind, _Sum())
            total.rounds += window.rounds
            total.seconds += window.elapsed_s
            total.tokens += window.produced_tokens
            total.accepted += window.accepted_tokens
            total.drafted += max(window.drafted_tokens, window.accepted_tokens)  # older workers count none
            total.kv_tokens += window.kv_tokens
        if rounds.prefilled_tokens:
            tokens, seconds = self._prefill.get(info.device, (0, 0.0))
            self._prefill[info.device] = tokens + rounds.prefilled_tokens, seconds + rounds.prefill_s

    def lines(self, at_s: float) -> Iterator[Line]:
        """Yield the sums and start new ones."""
        rounds, self._rounds = self._rounds, {}
        prefill, self._prefill = self._prefill, {}
        for kind, total in rounds.items():
            if total.rounds:
                yield RoundsLine(
                    at=at_s,
                    device=kind.device,
                    arm=kind.arm,
                    batch=kind.batch,
                    drafter=kind.drafter,
                    policy=kind.policy,
                    rounds=total.rounds,
                    seconds=total.seconds,
                    tokens=total.tokens,
                    accepted=total.accepted,
                    drafted=total.drafted,
                    kv_tokens=total.kv_tokens,
                )
        for device, (tokens, seconds) in prefill.items():
            yield PrefillLine(at=at_s, device=device, tokens=tokens, seconds=seconds)
