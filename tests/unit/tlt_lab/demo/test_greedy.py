from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.rollout import TokenChunk
from tlt_lab.demo.greedy import difference
from tlt_lab.demo.record import Difference

tokens = st.lists(st.integers(0, 3), max_size=6)


def chunk(ids: list[int], logprob: float = -1.0) -> TokenChunk:
    return TokenChunk(
        request_id=RequestId("r"),
        token_ids=tuple(ids),
        logprobs=(logprob,) * len(ids),
        policy_versions=(PolicyVersion(0),) * len(ids),
    )


@given(tokens)
def test_equal_responses_do_not_differ(ids: list[int]) -> None:
    assert difference(0, chunk(ids), chunk(ids)) is None


@given(tokens, tokens, tokens)
def test_the_first_token_that_differs_is_found_with_the_gap(same: list[int], mine: list[int], other: list[int]) -> None:
    found = difference(5, chunk([*same, 7, *mine], -1.0), chunk([*same, 8, *other], -1.25))
    assert found == Difference(response=5, token=len(same), gap=0.25)


@given(tokens, tokens.filter(bool))
def test_a_response_that_only_goes_on_has_no_gap(same: list[int], more: list[int]) -> None:
    assert difference(0, chunk(same), chunk([*same, *more])) == Difference(response=0, token=len(same), gap=None)
