"""Addresses of checkpoints and workers, as callers write them."""

from urllib.parse import SplitResult, unquote, urlsplit

from tlt_common.domain.bounds import MAX_URI, require_name
from tlt_common.errors import InvalidRequestError
from tlt_gateway.http.bodies.shown import shown


def address_in(field: str, address: str) -> SplitResult:
    """
    Return the parts of a path or URI.

    Raises:
        InvalidRequestError: It is empty, too long, malformed, or has characters that no path has.
    """
    require_name(field, address, least=1, most=MAX_URI)
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise InvalidRequestError(
            f"{field} is {shown(address)}: {error}; accepted: a path or URI", field=field
        ) from None
    if "\0" in unquote(address):
        raise InvalidRequestError(f"{field} is {shown(address)}; it must not contain NUL", field=field)
    return parts
