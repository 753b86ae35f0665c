"""Stop strings over gRPC."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tests.fakes.chat_model import write_chat_model
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tlt_common.client import FinishReason, SamplingParams
from tlt_common.errors import InvalidRequestError

SAID = "ask <search>Paris</search> now"
STOP = "</search>"
WANTED = SamplingParams(max_new_tokens=60, stop=("</answer>", STOP))


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return write_chat_model(tmp_path)


@pytest.fixture
def tokens(tokenizer: Tokenizer) -> list[int]:
    return [token for character in SAID for token in tokenizer.encode(character).ids]


@pytest.fixture
async def workers(tokenizer: Tokenizer, tokens: list[int]) -> AsyncIterator[tuple[FakeWorker, FakeWorker]]:
    """Workers of which both say `SAID` after a prompt of one token."""
    async with (
        FakeWorker("w0", vocab_size=300, max_running=1) as first,
        FakeWorker("w1", vocab_size=300, max_running=1) as second,
    ):
        for worker in (first, second):
            worker.decode = lambda ids: str(tokenizer.decode(ids, skip_special_tokens=False))
            worker.next_token = lambda so_far: tokens[len(so_far) - 1]
        yield first, second


async def test_a_response_ends_with_the_token_that_completes_it(
    start: Start, workers: tuple[FakeWorker, FakeWorker], tokens: list[int]
) -> None:
    ended = tokens[: SAID.index(STOP) + len(STOP)]
    async with start(*workers) as client:
        response = await client.generate([5], WANTED)
        [batch] = await client.batch([[5]], 2, WANTED)
    for one in (response, *batch):
        assert (list(one.token_ids), one.finish_reason, one.matched_stop) == (ended, FinishReason.STOP, STOP)
        assert one.stats is not None
        assert one.stats.completion_tokens == len(ended)
    assert not workers[0].hung_up + workers[0].aborted + workers[1].hung_up + workers[1].aborted


async def test_one_worker_that_cannot_find_them_is_enough_to_refuse(
    start: Start, workers: tuple[FakeWorker, FakeWorker]
) -> None:
    workers[1].decode = None
    async with start(*workers) as client:
        with pytest.raises(InvalidRequestError, match=r"no tokenizer\.json") as raised:
            await client.generate([5], WANTED)
    assert raised.value.field == "sampling.stop"
    assert not workers[0].prompts + workers[1].prompts
