"""A real model behind the whole suite: both protocols, conversations, aborts, new weights and engines that die."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.engine import models
from tests.integration.up.running import COME_BACK_S, pids, serving, until
from tests.lossless.judge import TIE
from tests.real.model import DRAFTER, MODEL, greedy_gap, logprob_gap, next_logits, task, write_noisy
from tlt_common.client import Client, SamplingParams
from tlt_common.domain.prompt import Speculation
from tlt_common.domain.response import FinishReason
from tlt_common.errors import TltError
from tlt_local.configuration.config import StackConfig
from tlt_local.stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800), pytest.mark.asyncio(loop_scope="module")]

TOKENS, PROMPTS = 32, 4
GREEDY = SamplingParams(temperature=0.0, max_new_tokens=TOKENS, ignore_eos=True)
SEEDED = SamplingParams(temperature=0.6, max_new_tokens=TOKENS, ignore_eos=True, seed=5)
SETTINGS = {"greedy": GREEDY, "seeded": SEEDED}
LOGPROB_GAP = 1e-3
WORKER = {
    "engine.dtype": "float32", "engine.context_length": "1024", "engine.arms": "off,chain-3,ngram-4",
    "trainer.enabled": "false",
}  # fmt: skip
GROUP = 4
"""Responses to a prompt."""
TURNS = ("Anna has 5 apples and buys 7 more. How many has she?", "She gives 4 away. How many are left?", "And doubled?")


@dataclass(frozen=True, slots=True)
class Response:
    """What both protocols return."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack() -> AsyncIterator[Stack]:
    config = StackConfig(model=MODEL.directory, drafter=DRAFTER, workers=2, settings={"worker": WORKER})
    async with Stack(config, restarts=True) as running:
        yield running
        assert not [ended for ended in running.ended if ended.failed], "a service ended that no test had killed"


@pytest_asyncio.fixture(loop_scope="module")
async def client(stack: Stack) -> AsyncIterator[Client]:
    async with Client(stack.endpoint) as connected:
        yield connected


@pytest_asyncio.fixture(loop_scope="module")
async def http(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=stack.http_url, timeout=COME_BACK_S, trust_env=False) as connected:
        yield connected


@pytest.fixture(scope="module")
def prompts() -> list[tuple[int, ...]]:
    return list(task().hard(PROMPTS, seed=11))


@pytest.fixture(scope="module")
def model() -> Any:
    return models.load(MODEL.directory)


async def over_grpc(
    client: Client, prompts: Sequence[Sequence[int]], sampling: SamplingParams, **options: Any
) -> list[Response]:
    found = await client.batch(prompts, 1, sampling, **options)
    return [Response(response.token_ids, response.logprobs) for (response,) in found]


async def over_http(
    http: httpx.AsyncClient, prompts: Sequence[Sequence[int]], sampling: SamplingParams
) -> list[Response]:
    params = {
        "temperature": sampling.temperature, "max_new_tokens": sampling.max_new_tokens, "ignore_eos": True,
    }  # fmt: skip
    seeds = [{} if sampling.seed is None else {"sampling_seed": sampling.seed + place} for place in range(len(prompts))]
    body = {"input_ids": list(map(list, prompts)), "sampling_params": [params | seed for seed in seeds]}
    answer = await http.post("/generate", json=body | {"return_logprob": True})
    answer.raise_for_status()
    return [
        Response(tuple(one["output_ids"]), tuple(entry[0] for entry in one["meta_info"]["output_token_logprobs"]))
        for one in answer.json()
    ]


@pytest.mark.parametrize("kind", SETTINGS)
async def test_both_protocols_return_transformers_tokens_and_logprobs(
    client: Client, http: httpx.AsyncClient, prompts: list[tuple[int, ...]], model: Any, kind: str
) -> None:
    sampling = SETTINGS[kind]
    grpc, rest = await over_grpc(client, prompts, sampling), await over_http(http, prompts, sampling)
    assert [one.token_ids for one in grpc] == [one.token_ids for one in rest]
    for ids, *responses in zip(prompts, grpc, rest, strict=True):
        logits_TV = next_logits(model, ids, responses[0].token_ids)
        for one in responses:
            assert logprob_gap(logits_TV, one.token_ids, one.logprobs, sampling.temperature) <= LOGPROB_GAP
        assert kind != "greedy" or greedy_gap(logits_TV, responses[0].token_ids) <= TIE


async def test_requests_that_decline_drafts_get_the_same_tokens(client: Client, prompts: list[tuple[int, ...]]) -> None:
    for sampling in SETTINGS.values():
        on = await over_grpc(client, prompts, sampling)
        off = await over_grpc(client, prompts, sampling, speculation=Speculation.OFF)
        assert [one.token_ids for one in on] == [one.token_ids for one in off]


async def test_turns_of_a_conversation_find_the_earlier_ones_cached(http: httpx.AsyncClient, model: Any) -> None:
    messages: list[dict[str, str]] = []
    known = 0
    for text in TURNS:
        messages.append({"role": "user", "content": text})
        body = {"model": MODEL.name, "messages": messages, "max_tokens": 48, "temperature": 0, "return_token_ids": True}
        answer = await http.post("/v1/chat/completions", json=body, headers={"X-Session-ID": "anna"})
        answer.raise_for_status()
        found = answer.json()
        (choice,) = found["choices"]
        ids, generated = found["prompt_token_ids"], choice["token_ids"]
        assert tuple(ids) == task().prompt(*(message["content"] for message in messages))
        assert greedy_gap(next_logits(model, ids, generated), generated) <= TIE
        cached = found["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert cached >= known, f"turn {len(messages) // 2 + 1}"
        known = len(ids) - 1  # of the response, text that is tokenized again may differ
        messages.append({"role": "assistant", "content": choice["message"]["content"]})


async def test_whole_prompts_that_are_aborted_harm_no_other(
    client: Client, http: httpx.AsyncClient, prompts: list[tuple[int, ...]]
) -> None:
    before = await over_grpc(client, prompts, SEEDED)
    long = SamplingParams(max_new_tokens=400, ignore_eos=True)
    names = [f"whole-{place}" for place in range(GROUP)]
    doomed = [asyncio.ensure_future(client.generate(prompts[0], long, request_id=name)) for name in names]
    late = [asyncio.ensure_future(client.generate(prompts[1], long, timeout_s=1.5)) for _ in range(GROUP)]
    gone = asyncio.ensure_future(client.batch([prompts[2]], GROUP, long))
    beside = asyncio.ensure_future(over_grpc(client, prompts, SEEDED))
    await asyncio.sleep(1.0)
    assert await client.abort(*names) == GROUP
    gone.cancel()
    body = {"input_ids": list(prompts[3]), "sampling_params": {"n": GROUP, "max_new_tokens": 400}}
    with pytest.raises(httpx.TimeoutException):
        await http.post("/generate", json=body, timeout=1.0)
    assert {response.finish_reason for response in await asyncio.gather(*doomed)} == {FinishReason.ABORT}
    assert all(isinstance(error, TltError) for error in await asyncio.gather(*late, return_exceptions=True))
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert [one.token_ids for one in await beside] == [one.token_ids for one in before]


async def test_an_engine_that_is_killed_changes_no_token(
    stack: Stack, client: Client, prompts: list[tuple[int, ...]]
) -> None:
    before = await over_grpc(client, prompts, SEEDED)
    beside = asyncio.ensure_future(over_grpc(client, prompts, SEEDED))
    await asyncio.sleep(1.0)
    os.kill(pids(stack, "sglang::scheduler")[0], signal.SIGKILL)
    assert [one.token_ids for one in await beside] == [one.token_ids for one in before]
    await until(stack, serving(1))
    await until(stack, serving(2))
    assert [one.token_ids for one in await over_grpc(client, prompts, SEEDED)] == [one.token_ids for one in before]


async def test_new_weights_are_served_by_all_workers_and_the_old_ones_again(
    client: Client, prompts: list[tuple[int, ...]], model: Any, tmp_path: Path
) -> None:
    before = await over_grpc(client, prompts, GREEDY)
    newer = write_noisy(tmp_path / "newer")
    version = (await client.info()).policy_version + 1
    assert (await client.publish_weights(version, newer)).workers == 2
    moved = await over_grpc(client, prompts, GREEDY)
    noisy = models.load(newer)
    for ids, one in zip(prompts, moved, strict=True):
        logits_TV = next_logits(noisy, ids, one.token_ids)
        assert greedy_gap(logits_TV, one.token_ids) <= TIE
        assert logprob_gap(logits_TV, one.token_ids, one.logprobs) <= LOGPROB_GAP
        assert greedy_gap(next_logits(model, ids, one.token_ids), one.token_ids) > TIE
    assert (await client.publish_weights(version + 1, MODEL.directory)).workers == 2
    assert [one.token_ids for one in await over_grpc(client, prompts, GREEDY)] == [one.token_ids for one in before]
