"""Limits the memory of request bodies that are being received or parsed, in total and per caller."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request

from tlt_common.errors import OverloadedError

SMALL_BYTES = 2**16
"""A body up to this is not counted: one connection may send as much before anybody knows who it is."""
_KEY = "tlt_body_share"


class BodyBudget:
    """
    Args:
        max_bytes: Limit for all bodies together.
        retry_after_s: Retry delay sent with refusals.
    """

    def __init__(self, max_bytes: int, *, retry_after_s: float) -> None:
        self._max_bytes = max_bytes
        self._retry_after_s = retry_after_s
        self._taken = Counter[str]()

    def admit(self, request: Request, caller: str, *, share: float) -> None:
        """Admit the body of a request, limited to this share of the budget together with the caller's other bodies."""
        setattr(request.state, _KEY, (self, caller, int(share * self._max_bytes)))

    def take(self, caller: str, size: int, at_most: int) -> None:
        """
        Reserve more bytes.

        Raises:
            OverloadedError: So many bytes are not free.
        """
        if self._taken.total() + size > self._max_bytes or self._taken[caller] + size > at_most:
            raise OverloadedError(
                f"bodies of {self._taken[caller]} bytes of this caller are being read, and {self._taken.total()} in "
                f"all; the maximum is {at_most} and {self._max_bytes}; retry after {self._retry_after_s:g} s",
                retry_after_s=self._retry_after_s,
            )
        self._taken[caller] += size

    def give_back(self, caller: str, size: int) -> None:
        """Return reserved bytes."""
        self._taken[caller] -= size
        if not self._taken[caller]:
            del self._taken[caller]


class _Taken:
    """Bytes reserved for one body."""

    def __init__(self, admitted: tuple[BodyBudget, str, int] | None) -> None:
        self._admitted = admitted
        self._bytes = 0

    def grow(self, total_bytes: int) -> None:
        """
        Record the number of bytes received so far.

        Raises:
            OverloadedError: They exceed the budget.
        """
        if self._admitted is None or total_bytes <= SMALL_BYTES:
            return
        budget, caller, at_most = self._admitted
        budget.take(caller, total_bytes - self._bytes, at_most)
        self._bytes = total_bytes

    def end(self) -> None:
        """Return all bytes."""
        if self._admitted is not None and self._bytes:
            budget, caller, _ = self._admitted
            budget.give_back(caller, self._bytes)


@contextmanager
def taken_by(request: Request) -> Iterator[_Taken]:
    """Reserve bytes for the body of an admitted request within the block; one that was not admitted reserves none."""
    taken = _Taken(getattr(request.state, _KEY, None))
    try:
        yield taken
    finally:
        taken.end()
