"""How well a drafter predicts held-out data. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from tlt_common.domain.ids import PolicyVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTally:
    """Correct predictions and positions, per pass."""

    hits: tuple[float, ...]
    counts: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Per pass, the share of positions whose most likely token the drafter predicts."""

    hits: tuple[float, ...]
    policy_version: PolicyVersion = PolicyVersion(0)
    """Newest policy among those that generated the held-out data."""

    @property
    def top1(self) -> float:
        """Share for the first draft token."""
        return self.hits[0]

    @property
    def accept_length(self) -> float:
        """Expected tokens per round, including the bonus token, of a greedy chain with one draft per pass."""
        length, survives = 1.0, 1.0
        for hit in self.hits:
            survives *= hit
            length += survives
        return length


def score_of(tallies: Iterable[ScoreTally], policy_version: PolicyVersion = PolicyVersion(0)) -> Score | None:
    """Combine tallies; None: there was nothing to score on."""
    counted = [tally for tally in tallies if tally.counts[0]]
    if not counted:
        return None
    hits = (sum(column) for column in zip(*(tally.hits for tally in counted), strict=True))
    counts = (sum(column) for column in zip(*(tally.counts for tally in counted), strict=True))
    shares = tuple(hit / max(1.0, count) for hit, count in zip(hits, counts, strict=True))
    return Score(hits=shares, policy_version=policy_version)
