"""Token usage of a call, as OpenAI counts it."""

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
        stats: Statistics of each response, grouped by prompt.
        samples: Responses to each prompt. Tokens that one of them prefilled do not count as cached.
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
    """Return OpenAI's name of a finish reason."""
    return reason.value if reason else None
