"""The version that a call gives to new weights, and the one that they change."""

from collections.abc import Iterator
from contextlib import contextmanager

from tlt_common.domain.bounds import COUNTED_MAX
from tlt_common.domain.ids import PolicyVersion
from tlt_common.errors import InvalidRequestError, StaleVersionError
from tlt_gateway.http.bodies.body import renamed
from tlt_gateway.http.bodies.shown import shown

BASE = "base_version"
MAX_DIGITS = 100


def version_of(value: str | int | None, *, served: PolicyVersion, field: str = "weight_version") -> PolicyVersion:
    """
    Return the version; without one, the one after `served`.

    Raises:
        InvalidRequestError: It is not a number.
    """
    return _number(served + 1 if value is None else value, field, f"a number above {served}, the version served")


def base_of(value: str | int | None, *, served: PolicyVersion) -> PolicyVersion | None:
    """
    Return the version whose tensors a call changes; None for whole weights.

    Raises:
        InvalidRequestError: It is not a number.
    """
    accepted = f"the number of the version served, {served}, or null for whole weights"
    return None if value is None else _number(value, BASE, accepted)


@contextmanager
def named_as_sent() -> Iterator[None]:
    """Name the base in errors as callers of HTTP do."""
    try:
        yield
    except StaleVersionError as error:
        raise renamed(error, {f"header.{BASE}": BASE}) from error


def _number(version: str | int, field: str, accepted: str) -> PolicyVersion:
    digits = str(version) if isinstance(version, str) or -1 < version <= COUNTED_MAX else ""
    if not (digits.isascii() and digits.isdecimal() and len(digits) < MAX_DIGITS) or int(digits) > COUNTED_MAX:
        raise InvalidRequestError(f"{field} is {shown(version)}; accepted: {accepted}", field=field)
    return PolicyVersion(int(version))
