"""Which sampling settings are exact under speculation."""

from tlt_common.domain.rollout import SamplingParams


def speculation_blocker(params: SamplingParams) -> str | None:
    """
    Why a request must run without drafts, or None if drafts leave its distribution as it is.

    Verification sees several positions at once, while penalties and a minimum length change the distribution from one
    token to the next: they are the same for a whole round, and exact with one token per round only (`penalties`).
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
