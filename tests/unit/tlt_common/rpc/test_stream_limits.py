"""What one caller may stream to a server."""

from collections.abc import AsyncIterator

import pytest

from tlt_common.errors import InvalidRequestError, OverloadedError
from tlt_common.rpc.limits import Limits, Usage


async def stream(count: int, size: int = 100) -> AsyncIterator[bytes]:
    """Yield messages of `size` bytes each."""
    for _ in range(count):
        yield bytes(size)


async def test_calls_of_one_caller_share_the_limit_and_free_it() -> None:
    usage = Usage(Limits(stream_bytes=250))
    first = usage.metered("a", stream(2))
    await anext(first)
    await anext(first)
    with pytest.raises(OverloadedError, match="the maximum is 250 at a time"):
        await anext(usage.metered("a", stream(1)))
    assert await anext(usage.metered("b", stream(1)))
    assert [message async for message in first] == []
    assert await anext(usage.metered("a", stream(1)))


async def test_a_call_that_can_never_fit_is_not_told_to_retry() -> None:
    with pytest.raises(InvalidRequestError, match="the maximum is 250"):
        assert [message async for message in Usage(Limits(stream_bytes=250)).metered("a", stream(3))] == []
