"""Fields of weight updates that protocols share: version, base version and tensors."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from tlt_common.domain.bounds import COUNTED_MAX
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.transfer import Broadcast, TensorForm
from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import InvalidRequestError, StaleVersionError
from tlt_gateway.http.bodies.body import renamed
from tlt_gateway.http.bodies.shown import shown

BASE = "base_version"
MAX_DIGITS = 100
_NAMED = re.compile(r"[A-Za-z][A-Za-z_:=/-]{0,63}([0-9]{1,99})")
"""A version such as step-42 is its number: the only one in it, at its end, and not a negative one or a fraction."""
WORLD_SIZE = 1
"""Ranks of a trainer's process group: one worker receives what it broadcasts, for the whole fleet."""


def version_of(value: str | int | None, *, served: PolicyVersion, field: str = "weight_version") -> PolicyVersion:
    """
    Return the version; by default, the one after `served`.

    Raises:
        InvalidRequestError: It is not a number.
    """
    return _number(
        served + 1 if value is None else value,
        field,
        f"a number above {served}, the version served, or a name that ends in one, such as step-{served + 1}",
    )


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
    """Rename the base version in errors to the field of the HTTP protocols."""
    try:
        yield
    except StaleVersionError as error:
        raise renamed(error, {f"header.{BASE}": BASE}) from error


def _number(version: str | int, field: str, accepted: str) -> PolicyVersion:
    digits = str(version) if isinstance(version, str) or -1 < version <= COUNTED_MAX else ""
    if named := _NAMED.fullmatch(digits):
        digits = named[1]
    if not (digits.isascii() and digits.isdecimal() and len(digits) < MAX_DIGITS) or int(digits) > COUNTED_MAX:
        raise InvalidRequestError(f"{field} is {shown(version)}; accepted: {accepted}", field=field)
    return PolicyVersion(int(digits))


def broadcast_of(
    group: str,
    names: list[str],
    dtypes: list[str],
    shapes: list[list[int]],
    *,
    flat: bool,
    dtypes_field: str = "dtypes",
) -> Broadcast:
    """
    Return a broadcast of tensors, described by three lists.

    Raises:
        InvalidRequestError: The lists differ in length, or an entry is invalid.
    """
    for field, found in ((dtypes_field, dtypes), ("shapes", shapes)):
        if len(found) != len(names):
            raise InvalidRequestError(
                f"{field} has {len(found)} entries; accepted: {len(names)}, as names has", field=field
            )
    forms = [
        TensorForm(name=name, dtype=dtype, shape=tuple(shape))
        for name, dtype, shape in zip(names, dtypes, shapes, strict=True)
    ]
    return Broadcast(group=group, tensors=tuple(forms), flat=flat).checked()


async def no_tensors() -> AsyncIterator[TensorChunk]:
    """Yield nothing."""
    return
    yield
