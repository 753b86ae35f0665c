from hypothesis import given
from hypothesis import strategies as st

from countdown.pairs import compare, shared_tokens
from countdown.record import Difference
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.response import TokenChunk

tokens = st.lists(st.integers(0, 3), max_size=6)


def chunk(ids: list[int], logprob: float = -1.0) -> TokenChunk:
    return TokenChunk(
        request_id=RequestId("r"),
        token_ids=tuple(ids),
        logprobs=(logprob,) * len(ids),
        policy_versions=(PolicyVersion(0),) * len(ids),
    )


@given(st.lists(st.lists(tokens, min_size=2, max_size=2), max_size=4))
def test_equal_responses_do_not_differ(ids: list[list[list[int]]]) -> None:
    side = [[chunk(each) for each in of_prompt] for of_prompt in ids]
    found = compare(side, side)
    assert (found.responses, found.identical) == (2 * len(ids), 2 * len(ids))
    assert found.max_logprob_gap == 0.0


@given(tokens, tokens, tokens)
def test_the_first_token_that_differs_is_found_with_the_gap(same: list[int], mine: list[int], other: list[int]) -> None:
    on = [[chunk(same), chunk([*same, 7, *mine], -1.0)]]
    found = compare(on, [[chunk(same), chunk([*same, 8, *other], -1.25)]])
    assert found.differences == (Difference(prompt=0, sample=1, token=len(same), gap=0.25),)
    assert found.identical == 1


@given(tokens, tokens.filter(bool))
def test_a_response_that_only_goes_on_has_no_gap(same: list[int], more: list[int]) -> None:
    found = compare([[chunk(same)]], [[chunk([*same, *more])]])
    assert found.differences == (Difference(prompt=0, sample=0, token=len(same), gap=None),)


@given(tokens.filter(bool))
def test_logprobs_are_compared_over_the_shared_tokens_only(same: list[int]) -> None:
    on = [[chunk([*same, 7], -1.0)]]
    assert compare(on, [[chunk([*same, 8], -1.125)]]).max_logprob_gap == 0.125
    assert compare([[chunk([7], -1.0)]], [[chunk([8], -3.0)]]).max_logprob_gap == 0.0


@given(tokens, tokens)
def test_what_two_responses_share_is_a_prefix_of_both(mine: list[int], other: list[int]) -> None:
    shared = shared_tokens(chunk(mine), chunk(other))
    assert mine[:shared] == other[:shared]
    assert shared == min(len(mine), len(other)) or mine[shared] != other[shared]
