"""How well a drafter guesses what it was not trained on. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Right guesses and positions, per pass."""

    hits: tuple[float, ...]
    counts: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Per pass, the share of positions whose most likely token the drafter guesses."""

    hits: tuple[float, ...]

    @property
    def top1(self) -> float:
        """Of the first draft token."""
        return self.hits[0]

    @property
    def accept_length(self) -> float:
        """Tokens per round to expect of a greedy chain of as many drafts as there are passes, bonus included."""
        length, survives = 1.0, 1.0
        for hit in self.hits:
            survives *= hit
            length += survives
        return length


def score_of(tallies: Iterable[Tally]) -> Score | None:
    """Sum up; None: there was nothing to score on."""
    counted = [tally for tally in tallies if tally.counts[0]]
    if not counted:
        return None
    hits = (sum(column) for column in zip(*(tally.hits for tally in counted), strict=True))
    counts = (sum(column) for column in zip(*(tally.counts for tally in counted), strict=True))
    return Score(hits=tuple(hit / max(1.0, count) for hit, count in zip(hits, counts, strict=True)))
