"""Estimates the worth of arms at bucket sizes at which they were never tried."""

from collections.abc import Sequence
from typing import NamedTuple

from tlt_common.bandit.track import ArmTrack
from tlt_common.domain.arm import OFF

WORTH_A_TRIAL = 0.6
"""
Minimum share of the best arm's worth for an immediate trial. An arm that earned less at the next bucket (its square
at the second next, ...) is not tried at this one at once, but left to exploration: from one power of two to the
next, no arm gains more on another.
"""


class Guess(NamedTuple):
    """Estimated worth of an untried arm."""

    share: float
    """Share of the best arm's worth."""
    hope: float
    """1 if it may well be the best; lower values are less likely."""


def guess(track: ArmTrack, candidates: Sequence[ArmTrack], group: int, *, best: float | None) -> Guess:
    """
    Estimate the worth of a track from the nearest bucket at which it is known, or from the previous drafter.

    `best` is the worth of the best candidate at this bucket, in tokens per request and second; None if unknown.
    """
    groups = track.groups()
    if not groups:
        former = track.former_worth(group)
        if best is None:
            return Guess(share=1.0, hope=1.0)
        if former is not None:
            return Guess(share=min(1.0, former / group / best), hope=1.0)
        share = min(1.0, _most(track, candidates, group) / best)
        return Guess(share=share, hope=min(1.0, share / WORTH_A_TRIAL))
    distance, nearest = min((abs(other.bit_length() - group.bit_length()), other) for other in groups)
    worths = {each: worth for each in candidates if (worth := each.worth(nearest)) is not None}
    share = worths[track] / max(worths.values())
    return Guess(share=share, hope=min(1.0, share / WORTH_A_TRIAL**distance))


def _most(track: ArmTrack, candidates: Sequence[ArmTrack], group: int) -> float:
    """
    Return an upper bound on the tokens per request and second of an arm that never ran; infinite if nothing is known.

    Extrapolates from off and the longest shorter arm of the same drafts in a bucket where both are known, possibly with
    the previous drafter. On average, later drafts are accepted no more often than earlier ones, and each takes as long
    to verify.
    """
    off_s = next((each.round_s(group) for each in candidates if each.arm == OFF), None)
    known = [
        (each.arm.steps, length, round_s)
        for each in candidates
        if track.arm.tells_of(each.arm)
        and (length := each.expected_length()) is not None
        and (round_s := each.round_s(group)) is not None
    ]
    if off_s is None or not known:
        return float("inf")
    steps, length, round_s = max(known)
    more = (track.arm.steps - steps) / steps
    return (length + more * (length - 1.0)) / (round_s + more * max(0.0, round_s - off_s))
