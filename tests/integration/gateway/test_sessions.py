"""Turns of a session run where the earlier ones are cached."""

from collections.abc import Sequence

import pytest
from prometheus_client import REGISTRY

from tests.fakes.prefix_cache import PrefixCache
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tlt_bench.turns.talk import Shape, Talk, together
from tlt_common.client import Client, SamplingParams
from tlt_common.domain.response import ResponseStats

Pair = tuple[FakeWorker, FakeWorker]
TURN = SamplingParams(max_new_tokens=4)


@pytest.fixture
def few_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few cached tokens outweigh a running request."""
    monkeypatch.setattr("tlt_gateway.gateway.AFFINITY_TOKENS", 8)


async def turn(client: Client, ids: list[int], session: str = "s") -> ResponseStats:
    """Run a turn; append its response to `ids`."""
    answer = await client.generate(ids, TURN, session_id=session)
    assert answer.stats is not None
    ids += answer.token_ids
    return answer.stats


async def two_sessions(client: Client, *, named: bool) -> list[ResponseStats]:
    """Run four turns of two sessions at a time, whose tools answer with a token."""
    found: list[ResponseStats] = []
    talks = {"s": [1, 2, 3], "t": [7, 8, 9]}
    for number in range(4):
        # In the second turn the other session is first.
        for name in sorted(talks, reverse=bool(number % 2)):
            found.append(await turn(client, talks[name], name if named else ""))
            talks[name].append(50)
    return found


async def test_each_session_stays_with_its_worker(start: Start, pair: Pair, few_tokens: None) -> None:
    async with start(*pair) as client:
        stats = await two_sessions(client, named=True)
    later = stats[2:]
    assert all(one.cached_tokens == one.prompt_tokens - 2 for one in later)  # the last sampled token, and the tool's
    assert [one.cached_tokens for one in stats[:2]] == [0, 0]


async def test_samples_of_a_prompt_share_its_prefill(start: Start, pair: Pair, few_tokens: None) -> None:
    prompts = [list(range(first, first + 60)) for first in (0, 30)]
    async with start(*pair) as client:
        groups = await client.batch(prompts, samples=4, sampling=TURN)
    homes = [{sample.stats.worker_id for sample in group if sample.stats} for group in groups]
    assert [len(workers) for workers in homes] == [1, 1]
    assert homes[0] != homes[1]
    assert [len(fake.prompts) for fake in pair] == [4, 4]


async def test_the_share_of_cached_prompt_tokens_is_counted_for_sessions(start: Start, worker: FakeWorker) -> None:
    def counted() -> tuple[float, float]:
        names = ("tlt_gateway_session_prompt_tokens_total", "tlt_gateway_session_cached_tokens_total")
        prompt, cached = (REGISTRY.get_sample_value(name) or 0.0 for name in names)
        return prompt, cached

    before = counted()
    async with start(worker) as client:
        ids = [1, 2, 3]
        await turn(client, ids)
        await turn(client, ids)
        await turn(client, [1, 2, 3], session="")
    assert tuple(after - then for after, then in zip(counted(), before, strict=True)) == (3 + 7, 6)


class Forgetful(PrefixCache):
    """Caches nothing."""

    def add(self, tokens: Sequence[int], *, key: str = "") -> None:
        """Forget them."""


async def test_the_benchmark_counts_what_is_prefilled_again(start: Start, worker: FakeWorker) -> None:
    shape = Shape(prompt=8, response=(1, 3), answer=4)
    async with start(worker) as client:
        talks = [Talk(shape, seed=1, vocabulary=100, session=name) for name in "st"]
        await together(client, talks[:1], turns=6)
        worker.prefixes = Forgetful()
        await together(client, talks[1:], turns=6)
    cached, forgotten = (one.found for one in talks)
    assert cached.prompt_tokens == forgotten.prompt_tokens == sum(len(one.token_ids) for one in worker.prompts[:6])
    assert (cached.refilled_tokens, forgotten.refilled_tokens) == (0, cached.earlier_tokens)
    assert cached.earlier_tokens == sum(len(one.token_ids) for one in worker.prompts[1:6]) - 5 * (4 + 1)
