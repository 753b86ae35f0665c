"""Figures that tests read from answers."""

from collections.abc import Iterable

from tlt_common.domain.response import ResponseStats, TokenChunk


def tokens(answers: Iterable[TokenChunk]) -> list[tuple[int, ...]]:
    """Return the token ids of each answer."""
    return [answer.token_ids for answer in answers]


def stats(answer: TokenChunk) -> ResponseStats:
    """Return the statistics of a finished answer."""
    assert answer.stats is not None
    return answer.stats


def accepted(answers: Iterable[TokenChunk]) -> int:
    """Return the number of accepted draft tokens over all answers."""
    return sum(stats(answer).accepted_draft_tokens for answer in answers)


def rounds(answers: Iterable[TokenChunk]) -> int:
    """Return the number of rounds over all answers, prefill included."""
    return sum(stats(answer).rounds for answer in answers)
