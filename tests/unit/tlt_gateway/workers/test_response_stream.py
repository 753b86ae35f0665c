"""What has arrived of a response, until it is read."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, contextmanager

import pytest

from tlt_common.domain.ids import RequestId
from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_common.errors import AbortedError, RequestFailedError, UnavailableError
from tlt_gateway.workers.response_stream import ResponseStream

pytestmark = pytest.mark.looptime


def chunk(token: int, *, last: bool = False) -> TokenChunk:
    return TokenChunk(
        request_id=RequestId("r"),
        token_ids=(token,),
        logprobs=(-0.5,),
        policy_versions=(),
        finish_reason=FinishReason.STOP if last else None,
    )


@contextmanager
def running(_stream: ResponseStream) -> Iterator[None]:
    yield


async def test_what_a_slow_reader_missed_comes_as_one_chunk() -> None:
    stream = ResponseStream(running)
    async with aclosing(stream.chunks()) as chunks:
        first = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        stream.add(chunk(0))
        assert (await first).token_ids == (0,)
        for token in range(1, 1000):
            stream.add(chunk(token, last=token == 999))
        rest = await anext(chunks)
        assert (rest.token_ids, rest.rounds) == (tuple(range(1, 1000)), 999)
        assert rest.finish_reason is FinishReason.STOP
        assert await anext(chunks, None) is None
    assert stream.is_complete


@pytest.mark.parametrize("error", [RequestFailedError("out of bounds"), UnavailableError("lost")])
async def test_tokens_that_arrived_before_the_end_are_kept(error: RequestFailedError | UnavailableError) -> None:
    stream = ResponseStream(running)
    stream.add(chunk(0))
    if isinstance(error, UnavailableError):
        stream.lose(error)
    else:
        stream.fail(error)
    chunks = stream.chunks()
    assert (await anext(chunks)).token_ids == (0,)
    with pytest.raises(type(error)):
        await anext(chunks)
    assert stream.is_complete == isinstance(error, RequestFailedError)


async def test_the_first_reason_to_end_counts() -> None:
    stream = ResponseStream(running)
    stream.hang_up()
    stream.lose(UnavailableError("lost"))
    with pytest.raises(AbortedError):
        await anext(stream.chunks())
