"""A gateway's requests on a worker, over one stream, in virtual time."""

import asyncio
from array import array
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace

import pytest

from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.requests import Failure, HangUp, Part, Start
from tlt_common.domain.response import FinishReason, PromptLogprobs, RoutedExperts, TokenChunk
from tlt_common.errors import DrainingError, InvalidRequestError, RequestFailedError, TltError
from tlt_common.rpc.drain import Drain
from tlt_worker.requests import outgoing
from tlt_worker.requests.outgoing import PACE_S, Outgoing
from tlt_worker.requests.request_stream import RequestStream

pytestmark = pytest.mark.looptime

Request = Start | HangUp | Failure
ROUND_S = 0.01
TOKENS = 20


def start(name: str) -> Start:
    return Start(prompt=Prompt(request_id=RequestId(name), token_ids=(1,)))


def chunk(name: str, token: int, *, last: bool = False) -> TokenChunk:
    return TokenChunk(
        request_id=RequestId(name),
        token_ids=(token,),
        logprobs=(-1.0,),
        policy_versions=(),
        finish_reason=FinishReason.LENGTH if last else None,
    )


class Engine:
    """Generates `TOKENS` tokens, one every `ROUND_S`. A request named "broken" fails at its third."""

    def __init__(self) -> None:
        self.running: set[str] = set()
        self.aborted: list[str] = []

    async def generate(self, prompt: Prompt) -> AsyncGenerator[TokenChunk, None]:
        name, complete = prompt.request_id, False
        self.running.add(name)
        try:
            for token in range(TOKENS):
                await asyncio.sleep(ROUND_S)
                if name.startswith("broken") and token == 2:
                    raise RequestFailedError("out of bounds") if name == "broken" else KeyError("defect")
                complete = token == TOKENS - 1
                yield chunk(name, token, last=complete)
        finally:
            self.running.discard(name)
            if not complete:
                self.aborted.append(name)


async def requests(*items: Request | float, held: bool = False) -> AsyncIterator[Request]:
    """Yield requests; a number is a pause in seconds. `held` leaves the stream open."""
    for item in items:
        if isinstance(item, float):
            await asyncio.sleep(item)
        else:
            yield item
    if held:
        await asyncio.Event().wait()


async def served(stream: RequestStream, *items: Request | float) -> list[list[Part]]:
    return [parts async for parts in stream.parts(requests(*items))]


def tokens(messages: list[list[Part]], name: str) -> list[int]:
    return [
        token
        for parts in messages
        for part in parts
        if isinstance(part, TokenChunk) and part.request_id == name
        for token in part.token_ids
    ]


def failures(messages: list[list[Part]]) -> dict[str, TltError]:
    return {part.request_id: part.error for parts in messages for part in parts if isinstance(part, Failure)}


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def stream(engine: Engine) -> RequestStream:
    return RequestStream(engine.generate, Drain())


async def test_responses_share_messages_and_rounds_are_merged(stream: RequestStream) -> None:
    messages = await served(stream, start("a"), start("b"))
    for name in "ab":
        assert tokens(messages, name) == list(range(TOKENS))
    rounds = TOKENS * ROUND_S / PACE_S
    assert len(messages) <= rounds + 3
    assert sum(part.rounds or 1 for parts in messages for part in parts if isinstance(part, TokenChunk)) == 2 * TOKENS


async def test_the_first_tokens_and_the_end_of_a_response_are_sent_at_once() -> None:
    loop, sent = asyncio.get_running_loop(), Outgoing()
    sent.put(chunk("a", 0))
    before_s = loop.time()
    assert len(await sent.take()) == 1
    assert loop.time() == before_s
    sent.put(chunk("a", 1))
    await sent.take()
    assert loop.time() == pytest.approx(before_s + PACE_S)
    sent.put(chunk("a", 2, last=True))
    await sent.take()
    assert loop.time() == pytest.approx(before_s + PACE_S)


async def test_a_message_is_bounded_and_a_failure_follows_the_tokens_of_its_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outgoing, "MAX_TOKENS", 2)
    sent = Outgoing(pace_s=0)
    for name in "abc":
        sent.put(chunk(name, 0))
    sent.put(Failure(request_id=RequestId("c"), error=RequestFailedError("broken")))
    assert [part.request_id for part in await sent.take()] == ["a", "b"]
    last = await sent.take()
    assert [type(part) for part in last] == [TokenChunk, Failure]
    assert sent.is_empty


async def test_a_request_that_fails_ends_alone_with_its_tokens_kept(stream: RequestStream, engine: Engine) -> None:
    messages = await served(stream, start("broken"), start("fine"), start("broken too"))
    assert tokens(messages, "fine") == list(range(TOKENS))
    assert tokens(messages, "broken") == tokens(messages, "broken too") == [0, 1]
    found = failures(messages)
    assert isinstance(found["broken"], RequestFailedError)
    assert "KeyError" in found["broken too"].message
    assert "defect" not in found["broken too"].message


async def test_hanging_up_aborts_one_request(stream: RequestStream, engine: Engine) -> None:
    messages = await served(
        stream, start("left"), start("stays"), 3.5 * ROUND_S, HangUp(request_id=RequestId("left")),
        HangUp(request_id=RequestId("unknown")),
    )  # fmt: skip
    assert engine.aborted == ["left"]
    assert len(tokens(messages, "left")) < TOKENS
    assert tokens(messages, "stays") == list(range(TOKENS))
    assert not failures(messages)


async def test_a_lost_gateway_aborts_all_its_requests(stream: RequestStream, engine: Engine) -> None:
    async with aclosing(stream.parts(requests(start("a"), start("b"), held=True))) as messages:
        await anext(messages)
        assert engine.running == {"a", "b"}
    assert not engine.running
    assert sorted(engine.aborted) == ["a", "b"]


async def test_ids_are_unique_and_bad_prompts_concern_nobody_else(stream: RequestStream) -> None:
    refused = Failure(request_id=RequestId("bad"), error=InvalidRequestError("prompt.top_p", field="prompt.top_p"))
    messages = await served(stream, start("a"), refused, start(""), start("a"))
    assert tokens(messages, "a") == list(range(TOKENS))
    found = failures(messages)
    assert found["bad"].field == "prompt.top_p"
    assert found[""].field == found["a"].field == "prompt.request_id"


async def test_a_draining_worker_finishes_what_runs_and_refuses_the_rest(engine: Engine) -> None:
    drain = Drain()
    stream = RequestStream(engine.generate, drain)

    async def asked() -> AsyncIterator[Request]:
        yield start("before")
        await asyncio.sleep(ROUND_S)
        draining = asyncio.ensure_future(drain.complete(10))
        await asyncio.sleep(ROUND_S)
        yield start("after")
        assert await draining
        stream.close()
        await asyncio.Event().wait()

    messages = [parts async for parts in stream.parts(asked())]
    assert tokens(messages, "before") == list(range(TOKENS))
    assert isinstance(failures(messages)["after"], DrainingError)


async def test_an_empty_message_ends_the_stream_with_its_reason(stream: RequestStream, engine: Engine) -> None:
    async def asked() -> AsyncIterator[Request]:
        yield start("a")
        raise InvalidRequestError("the message has no part", field="part")

    with pytest.raises(InvalidRequestError, match="no part"):
        async for _ in stream.parts(asked()):
            pass
    assert not engine.running


async def test_experts_and_scored_prompts_of_several_responses_are_not_sent_in_one_message() -> None:
    """A message has a maximum size, and experts take megabytes for a response of thousands of tokens."""
    pending = Outgoing(pace_s=0.0)
    data = bytes(outgoing.MAX_TOKENS * outgoing.TOKEN_BYTES)
    routed = RoutedExperts(first=0, layers=1, top_k=1, dtype="U8", data=data)
    logprobs = array("f", bytes(outgoing.MAX_TOKENS * outgoing.TOKEN_BYTES))
    scored = PromptLogprobs(first=1, logprobs=logprobs)
    pending.put(replace(chunk("a", 1, last=True), routed_experts=routed))
    pending.put(replace(chunk("b", 1, last=True), prompt_logprobs=scored))
    pending.put(chunk("c", 1, last=True))
    assert [[part.request_id for part in await pending.take()] for _ in "abc"] == [["a"], ["b"], ["c"]]
