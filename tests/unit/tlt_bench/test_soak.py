"""What callers check, and slopes of memory."""

import random
import re
from dataclasses import replace
from typing import Any

import pytest

from tlt_bench.gateway import servers
from tlt_bench.soak.callers import SHARES, Callers
from tlt_bench.soak.slope import slope_of
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_common.errors import TltError, UnavailableError


def course(slope: float, *, noise: float, count: int = 400) -> list[tuple[float, float]]:
    chance = random.Random(7)
    return [(1000.0 * place, 90.0 + slope * place / 1000 + chance.gauss(0.0, noise)) for place in range(count)]


@pytest.mark.parametrize("slope", [0.0, 5.0, 40.0])
def test_a_slope_is_found_within_its_interval(slope: float) -> None:
    found = slope_of(course(slope, noise=0.5), per=1e6)
    assert found.low <= slope <= found.high
    assert found.is_noise is (slope == 0.0)


def test_without_noise_there_is_no_doubt() -> None:
    found = slope_of(course(5.0, noise=0.0), per=1e6)
    assert (found.mib, found.low, found.high) == pytest.approx((5.0, 5.0, 5.0))


ANSWERED = TokenChunk(
    request_id=RequestId("r"), token_ids=(8, 9), logprobs=(-1.0,) * 2, policy_versions=(PolicyVersion(0),) * 2,
    finish_reason=FinishReason.LENGTH,
)  # fmt: skip
TWO = SamplingParams(max_new_tokens=2)


def callers() -> Callers:
    nobody: Any = None
    return Callers(nobody, "", nobody, seed=1)


def test_a_response_that_nobody_gave_up_is_whole_and_the_one_to_its_prompt() -> None:
    one = callers()
    one._require_whole(ANSWERED, [7, 1], TWO)
    assert one.over == {"finished": 1}
    for wrong in (
        replace(ANSWERED, token_ids=(9, 10)),
        replace(ANSWERED, token_ids=(8,)),
        replace(ANSWERED, finish_reason=FinishReason.ABORT),
    ):
        with pytest.raises(TltError, match=re.escape("the response to [7, 1] is not (8, 9)")):
            one._require_whole(wrong, [7, 1], TWO)
    with pytest.raises(TltError, match="is lost, although nobody gave it up"):
        one._require_whole(UnavailableError("the gateway ended"), [7, 1], TWO)


def test_every_sample_of_a_batch_is_answered_as_its_seed_says() -> None:
    for sample in (0, 1000):
        sampling = SamplingParams(max_new_tokens=3, seed=servers.ENDS + sample)
        (only,) = servers.chunks(Prompt(request_id=RequestId("r"), token_ids=(998,), sampling=sampling))
        assert (only.token_ids, only.finish_reason) == ((999, 0, 1), FinishReason.STOP)


def test_shares_of_callers_are_of_a_whole() -> None:
    assert sum(SHARES.values()) == pytest.approx(1.0)
