"""Figures shared by all parts, their combination, and their targets."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tlt_bench.campaign.part import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of the campaign."""

    meaning: str
    combine: Callable[[Iterable[float]], float] = sum
    at_most: float | None = None
    """Upper bound; null for none."""
    at_least: Mapping[Size, float] | None = None
    """Lower bound by size; null for none."""
    must_hold: bool = False
    """
    Whether a missed target fails the campaign, as for counts of violations, but not for times and amounts of work.
    """

    def aim(self, size: Size) -> str:
        """Return the target as text; empty if there is none."""
        if self.at_most is not None:
            return "0" if self.at_most == 0 else f"at most {self.at_most:g}"
        return f"at least {self.at_least[size]:g}" if self.at_least else ""

    def aim_at_least(self, size: Size) -> float:
        """Return the lower bound; 0 if there is none."""
        return self.at_least[size] if self.at_least else 0.0

    def is_met(self, value: float, size: Size) -> bool:
        """Return whether a value meets the target."""
        if self.at_most is not None and not value <= self.at_most:
            return False
        return self.at_least is None or value >= self.at_least[size]


def _violations(meaning: str) -> Figure:
    return Figure(meaning=meaning, at_most=0, must_hold=True)


SHARED: Mapping[str, Figure] = {
    "kills": Figure(
        meaning="processes killed, stopped or terminated, and connections cut",
        at_least={Size.SHORT: 40, Size.MIDDLE: 60, Size.LONG: 300},
    ),
    "answers": Figure(meaning="responses compared with those of an undisturbed run"),
    "lost": _violations("responses that the client did not receive in full"),
    "http_answers": Figure(meaning="the same over HTTP, from clients that repeat a call answered with 503"),
    "http_lost": _violations(
        "HTTP calls that a gateway broke off, though it was not killed or stopped, or answered wrongly"
    ),
    "changed": _violations("responses that differ from those of the undisturbed run"),
    "overlapping_leases": _violations("pairs of training leases of one worker that overlapped"),
    "left_behind": _violations("processes and files that remained after shutdown"),
    "ledger_gaps": _violations("workers whose ledger does not sum to wall time"),
    "failed_services": _violations("services that ended by themselves, without a strike"),
    "not_back": _violations("processes that were not replaced"),
    "stuck_updates": _violations("weight updates that did not succeed after everything was back"),
    "stall_detect_s": Figure(
        meaning="seconds from the stop of an engine until its requests moved; maximum", combine=max, at_most=15
    ),
}
"""By name. A part that measures one of them uses this name."""


def combined(by_part: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the shared figures that at least one part measured, and the others as PART.NAME."""
    shared = {
        name: figure.combine([figures[name] for figures in by_part.values() if name in figures])
        for name, figure in SHARED.items()
        if any(name in figures for figures in by_part.values())
    }
    own = {
        f"{part}.{name}": value
        for part, figures in by_part.items()
        for name, value in figures.items()
        if name not in SHARED
    }
    return shared | own
