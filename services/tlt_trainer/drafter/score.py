"""Scores of drafters on held-out data. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from tlt_common.domain.ids import PolicyVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTally:
    """Sums of correct predictions, accepted drafts and positions, per pass."""

    hits: tuple[float, ...]
    accepted: tuple[float, ...]
    counts: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Prediction quality of a drafter for the policy's next token, per pass."""

    hits: tuple[float, ...]
    """Share of positions whose most likely token it predicts."""
    accepted: tuple[float, ...]
    """
    Probability that a sampled draft is accepted: one minus the total variation. This is the relevant score for sampled
    responses; it also distinguishes drafters that guess equally well.
    """
    policy_version: PolicyVersion = PolicyVersion(0)
    """Newest policy version that generated the held-out data."""

    @property
    def top1(self) -> float:
        """Share for the first draft token."""
        return self.hits[0]

    @property
    def accept_length(self) -> float:
        """Expected tokens per round, including the bonus token, of a chain with a sampled draft per pass."""
        length, survives = 1.0, 1.0
        for share in self.accepted:
            survives *= share
            length += survives
        return length


def score_of(tallies: Iterable[ScoreTally], policy_version: PolicyVersion = PolicyVersion(0)) -> Score | None:
    """Combine tallies; None if there was nothing to score."""
    counted = [tally for tally in tallies if tally.counts[0]]
    if not counted:
        return None
    counts = _summed(tally.counts for tally in counted)
    return Score(
        hits=_shares(_summed(tally.hits for tally in counted), counts),
        accepted=_shares(_summed(tally.accepted for tally in counted), counts),
        policy_version=policy_version,
    )


def _summed(rows: Iterable[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(sum(column) for column in zip(*rows, strict=True))


def _shares(parts: tuple[float, ...], wholes: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(part / max(1.0, whole) for part, whole in zip(parts, wholes, strict=True))
