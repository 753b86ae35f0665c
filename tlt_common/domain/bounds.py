"""Checks of single request fields. Each refusal names the field and what is accepted. Pure."""

from collections.abc import Sequence

from tlt_common.errors import InvalidRequestError

MAX_REQUEST_ID = 256
"""Maximum length of a client's request id, in characters."""
MAX_INTERNAL_ID = MAX_REQUEST_ID + 64
"""Maximum length of a request id at a worker: the gateway appends the sample's index and the number of moves."""
MAX_ABORTED = 2**13
"""Maximum number of ids of a call that aborts; whoever has more requests may abort all of them."""
MAX_SESSION_ID = 256
"""Maximum length of a session's id, in characters."""
MAX_NAME = 256
"""Maximum length of ids and names that services give each other, in characters."""
MAX_URI = 4096
"""Maximum length of a URI, in characters."""
MAX_STOP_STRINGS = 32
"""Maximum number of stop strings of a request."""
MAX_STOP_STRING = 128
"""Maximum length of a stop string, in characters."""
MAX_TOKEN_IDS = 2**21
"""Maximum number of token ids of a prompt or a response; what a model takes is checked by its context."""
MAX_RELEASE_S = 7 * 24 * 3600.0
"""Maximum limit of a release of memory, in seconds: a week."""
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
COUNTED_MAX = INT64_MAX - 2**20
"""Maximum of versions and epochs that the receiver counts on from: what follows must fit an int64 too."""


def require_range(field: str, value: float, *, low: float, high: float, open_low: bool = False) -> None:
    """
    Check that a number is finite and in [low, high], or in (low, high] if `open_low` is set.

    Raises:
        InvalidRequestError: The number is out of range.
    """
    # Written so that NaN fails.
    if not (low < value <= high if open_low else low <= value <= high):
        accepted = f"{'above' if open_low else 'from'} {low:g} to {high:g}"
        raise InvalidRequestError(f"{field} is {value}; accepted: {accepted}", field=field)


def require_ids(field: str, ids: Sequence[int], vocab_size: int) -> None:
    """
    Check that token ids are in the vocabulary.

    Raises:
        InvalidRequestError: A token id is not; the message gives its position.
    """
    if not ids or (min(ids) >= 0 and max(ids) < vocab_size):
        return
    position, token = next((place, token) for place, token in enumerate(ids) if not 0 <= token < vocab_size)
    raise InvalidRequestError(f"{field}[{position}] is {token}; accepted: 0 to {vocab_size - 1}", field=field)


def require_count(field: str, count: int, *, most: int) -> None:
    """
    Check the length of a repeated field.

    Raises:
        InvalidRequestError: The field has more than `most` entries.
    """
    if count > most:
        raise InvalidRequestError(f"{field} has {count} entries; the maximum is {most}", field=field)


def require_name(field: str, name: str, *, least: int = 0, most: int = MAX_NAME) -> None:
    """
    Check that an id or a name is printable and has `least` to `most` characters.

    Raises:
        InvalidRequestError: The name is invalid.
    """
    if not least <= len(name) <= most:
        accepted = f"{least} to {most}" if least else f"at most {most}"
        raise InvalidRequestError(f"{field} has {len(name)} characters; accepted: {accepted}", field=field)
    if not name.isprintable():
        raise InvalidRequestError(f"{field} is {name!r}; accepted: printable characters", field=field)


def require_stop_strings(field: str, strings: Sequence[str]) -> None:
    """
    Check the number of stop strings, and that each is Unicode of 1 to `MAX_STOP_STRING` characters.

    Raises:
        InvalidRequestError: A string is invalid, or there are too many.
    """
    require_count(field, len(strings), most=MAX_STOP_STRINGS)
    for place, string in enumerate(strings):
        if not 1 <= len(string) <= MAX_STOP_STRING:
            raise InvalidRequestError(
                f"{field}[{place}] has {len(string)} characters; accepted: 1 to {MAX_STOP_STRING}", field=field
            )
        try:
            string.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequestError(f"{field}[{place}] is not Unicode: {error.reason}", field=field) from error


def require_tokenizer(field: str, strings: Sequence[str], *, found: bool) -> None:
    """
    Check that workers have a tokenizer if there are stop strings, which they need it for.

    Raises:
        InvalidRequestError: The workers have no tokenizer.
    """
    if strings and not found:
        raise InvalidRequestError(
            f"{field} is {list(strings)!r:.80}, and the model's directory has no tokenizer.json, with which workers "
            "find stop strings; accepted: stop_token_ids",
            field=field,
        )
