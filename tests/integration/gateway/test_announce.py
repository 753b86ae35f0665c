"""Announced prompts on their way to the workers."""

from pathlib import Path

import pytest

from tests.fakes.tokens import SECRETS, write
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start, gateway
from tlt_common.client import Client
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.errors import InvalidRequestError, UnavailableError
from tlt_common.wire import worker as wire
from tlt_gateway.config import GatewayConfig

EIGHT = SamplingParams(max_new_tokens=8, seed=7, top_p=0.9)


async def test_prompts_are_divided_among_the_workers_all_samples_of_one_together(
    start: Start, pair: tuple[FakeWorker, FakeWorker]
) -> None:
    async with start(*pair) as client:
        assert await client.announce([[1], [2], [3]], 2, EIGHT) == 2
        parts = [[prompt.token_ids for prompt in worker.announced[""]] for worker in pair]
        assert sorted(parts) == [[(1,), (1,), (3,), (3,)], [(2,), (2,)]]
        for prompt in pair[0].announced[""]:
            assert (prompt.sampling.max_new_tokens, prompt.sampling.top_p, prompt.sampling.seed) == (8, 0.9, None)
        assert await client.announce([]) == 0  # takes back what was announced
        assert [worker.announced for worker in pair] == [{"": []}, {"": []}]
        assert [worker.prompts for worker in pair] == [[], []]  # nothing was generated for the caller
        assert (await client.info()).queued == 0


async def test_a_worker_that_fails_generates_nothing_ahead(start: Start, pair: tuple[FakeWorker, FakeWorker]) -> None:
    pair[0].announce_error = UnavailableError("busy")
    async with start(*pair) as client:
        assert await client.announce([[1], [2]]) == 1
        assert len(pair[1].announced[""]) == 1
        assert (await client.generate([5], EIGHT)).token_ids == tuple(range(6, 14))


async def test_prompts_that_cannot_be_sent_cannot_be_announced(start: Start, worker: FakeWorker) -> None:
    async with start(worker, max_queued=4) as client:
        with pytest.raises(InvalidRequestError, match="prompts") as refused:
            await client.announce([[1], [100]])
        assert "100" in refused.value.message
        assert refused.value.field.startswith("prompts[1]")
        with pytest.raises(InvalidRequestError, match="samples_per_prompt"):
            await client.announce([[1], [2]], 3)
    assert worker.announced == {}


async def test_each_caller_has_an_announcement_of_its_own(worker: FakeWorker, tmp_path: Path) -> None:
    config = GatewayConfig(workers=(worker.address,), tokens=write(tmp_path / "tokens.yaml"))
    async with (
        gateway(config) as address,
        Client(address, token=SECRETS["trainer"]) as trainer,
        Client(address, token=SECRETS["reader"]) as reader,
    ):
        await trainer.wait_ready(10)
        await trainer.announce([[1]])
        await reader.announce([[1]])
        await trainer.announce([[2]])
    assert {owner: [prompt.token_ids for prompt in prompts] for owner, prompts in worker.announced.items()} == {
        "trainer": [(2,)],
        "reader": [(1,)],
    }
    keys = {prompt.cache_key for prompts in worker.announced.values() for prompt in prompts}
    assert len(keys) == 2  # they share no text


async def test_a_prompt_is_sent_once_however_many_samples_it_has(
    start: Start, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = list[int]()

    def noted(message: wire.pb.AnnounceRequest) -> tuple[list[Prompt], int]:
        sent.append(message.ByteSize())
        return decoded(message)

    decoded = wire.announced_from_pb
    monkeypatch.setattr(wire, "announced_from_pb", noted)
    async with start(worker, max_queued_tokens=100) as client:
        assert await client.announce([[1] * 100], 4000, EIGHT) == 1
        with pytest.raises(InvalidRequestError, match="have 101 tokens; the maximum is 100 per call"):
            await client.announce([[1] * 50, [1] * 51], 4000, EIGHT)
    assert len(worker.announced[""]) == 4000
    assert sent[0] < 300
