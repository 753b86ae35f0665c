"""Decides which sampling settings are exact under speculation."""

from tlt_common.domain.rollout import SamplingParams


def speculation_blocker(params: SamplingParams) -> str | None:
    """
    Return why a request must run without drafts, or None if drafts preserve its distribution.

    Verification covers several positions at once, while penalties and a minimum length change the distribution from one
    token to the next: they are constant within a round, and so exact only with one token per round (`penalties`).
    """
    if params.frequency_penalty != 0.0:
        return "frequency_penalty changes with every token"
    if params.presence_penalty != 0.0:
        return "presence_penalty changes with every new token"
    if params.repetition_penalty != 1.0:
        return "repetition_penalty changes with every new token"
    if params.min_new_tokens > 0:
        return "min_new_tokens masks end tokens by position"
    return None
