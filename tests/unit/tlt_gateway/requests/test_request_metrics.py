import asyncio

import pytest
from prometheus_client import REGISTRY

from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_gateway.requests.request_metrics import RequestMetrics

pytestmark = pytest.mark.looptime

PROMPT = Prompt(request_id=RequestId("r"), token_ids=(1, 2, 3))


def sums() -> dict[str, float]:
    names = ("request_seconds", "first_token_seconds", "prompt_tokens", "response_tokens", "response_versions")
    found = {name: REGISTRY.get_sample_value(f"tlt_gateway_{name}_sum") for name in names}
    found["produced"] = REGISTRY.get_sample_value("tlt_gateway_produced_tokens_total")
    return {name: value or 0.0 for name, value in found.items()}


def added(before: dict[str, float]) -> dict[str, float]:
    return {name: value - before[name] for name, value in sums().items()}


def chunk(tokens: int, *versions: int) -> TokenChunk:
    return TokenChunk(
        request_id=PROMPT.request_id,
        token_ids=tuple(range(tokens)),
        logprobs=(0.0,) * tokens,
        policy_versions=tuple(map(PolicyVersion, versions)),
    )


async def test_a_response_counts_from_arrival_with_its_length_and_its_versions() -> None:
    before = sums()
    measured = RequestMetrics(PROMPT)
    await asyncio.sleep(4.0)
    measured.chunk(chunk(0))  # carries nothing, so it is not the first token
    await asyncio.sleep(1.0)
    measured.chunk(chunk(2, 1, 1))
    await asyncio.sleep(3.0)
    measured.chunk(chunk(3, 1, 2, 2))
    measured.finished()
    assert added(before) == pytest.approx(
        {
            "request_seconds": 8.0,
            "first_token_seconds": 5.0,
            "prompt_tokens": 3,
            "response_tokens": 5,
            "response_versions": 2,
            "produced": 5,
        }
    )


async def test_one_that_did_not_finish_counts_its_tokens_and_no_length() -> None:
    before = sums()
    RequestMetrics(PROMPT).chunk(chunk(2, 1, 1))
    assert added(before)["produced"] == 2
    assert added(before)["response_tokens"] == added(before)["request_seconds"] == 0
