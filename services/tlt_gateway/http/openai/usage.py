"""Tokens of a call, as OpenAI counts them."""

from collections.abc import Sequence

from pydantic import JsonValue

from tlt_common.domain.response import FinishReason, ResponseStats


def usage(
    prompt_tokens: int, completion_tokens: int, stats: Sequence[ResponseStats | None], *, samples: int
) -> dict[str, JsonValue]:
    """
    Return the token counts.

    Args:
        prompt_tokens: Tokens of all prompts, each counted once.
        completion_tokens: Tokens of all responses.
        stats: Of each response, those to one prompt next to each other.
        samples: Responses to each prompt. What one of them prefilled was not cached.
    """
    cached = [one.cached_tokens if one else 0 for one in stats]
    shared = sum(min(cached[place : place + samples]) for place in range(0, len(cached), samples))
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": shared},
    }


def finish_of(reason: FinishReason | None) -> str | None:
    """Return a finish reason by OpenAI's name."""
    return reason.value if reason else None
