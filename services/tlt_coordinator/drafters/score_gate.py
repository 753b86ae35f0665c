"""
Refuses drafters that are clearly worse than the fleet's newest. Pure.

Held-out scores are shares of positions of one trainer's newest held-out responses. Two such shares are comparable

- if one trainer measured both on the same positions: a trainer that could read the newest drafter sends its score
  (`base_top1`) beside the score of its own, so that the comparison holds whatever the policy did in between;
- otherwise, as for a drafter trained from scratch while the newest was unreadable, only as far as both were measured on
  responses of the same policy. Trainers sample one cache, so that the prompts are the same on average; but every update
  of the policy makes the newest drafter worse than its record says. The record therefore counts for less with every
  update since: the allowed drop grows by `max_drop` for each.

A share of 4,096 positions has a standard error of at most 0.008. Drops within `max_drop` also let through drafters that
lose first tokens but gain later ones.
"""

from tlt_common.domain.fleet import DrafterRecord, Publication
from tlt_common.errors import InvalidRequestError

MAX_SCORE_DROP = 0.05
"""Drop of the share of correctly predicted held-out tokens below the newest drafter's, beyond which a drafter is
refused: six standard errors of a score."""


def check_score(publication: Publication, newest: DrafterRecord | None, max_drop: float) -> None:
    """
    Args:
        publication: The drafter to judge.
        newest: Record of the newest drafter; None: there is none, and every score is accepted.
        max_drop: Largest accepted drop of held_out_top1, in absolute terms.

    Raises:
        InvalidRequestError: It scores clearly below the newest.
    """
    least = _least(publication, newest, max_drop)
    if publication.held_out_top1 < least:
        raise InvalidRequestError(
            f"held_out_top1 is {publication.held_out_top1:.3f}; accepted: {least:.3f} and above, since the newest "
            f"drafter scores {_compared(publication, newest)}",
            field="held_out_top1",
        )


def _least(publication: Publication, newest: DrafterRecord | None, max_drop: float) -> float:
    if publication.base_top1 is not None:
        return publication.base_top1 - max_drop
    if newest is None or newest.held_out_top1 == 0.0:
        return 0.0
    updates = max(0, publication.policy_version - newest.policy_version)
    return newest.held_out_top1 - max_drop * (1 + updates)


def _compared(publication: Publication, newest: DrafterRecord | None) -> str:
    if publication.base_top1 is not None:
        return f"{publication.base_top1:.3f} on the same positions"
    return f"{newest.held_out_top1:.3f} at policy {newest.policy_version}" if newest else "nothing"
