"""How long a text may be, before it is tokenised."""

from collections.abc import Iterable

from tlt_common.errors import InvalidRequestError

CHARACTERS_PER_TOKEN = 32
"""Characters of a text for each token of the context. A tokenizer needs 100 bytes and more for each: a text that cannot
fit is refused before. Prose has 4 per token, code 3; only the longest runs of blanks have more than this."""
LONGEST_CONTEXT = 2**20
"""Assumed while no worker has said how long the context is."""


def require_short(texts: Iterable[str], *, field: str, context_length: int) -> None:
    """
    Check that texts can be prompts of a model.

    Raises:
        InvalidRequestError: One cannot.
    """
    most = CHARACTERS_PER_TOKEN * (context_length or LONGEST_CONTEXT)
    for text in texts:
        if len(text) > most:
            raise InvalidRequestError(
                f"{field} has {len(text)} characters; accepted: at most {most}, {CHARACTERS_PER_TOKEN} for each of the "
                f"{context_length} tokens of the context",
                field=field,
            )
