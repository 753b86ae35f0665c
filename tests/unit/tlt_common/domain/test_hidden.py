"""The hash of a prompt is the same in every process, now and later."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.hidden import PROMPT_HASHES, prompt_hash

TOKEN_IDS = st.lists(st.integers(0, 2**31 - 1), max_size=20)


def test_the_hash_is_that_of_the_ids_as_bytes_and_does_not_change() -> None:
    assert prompt_hash([]) == 0xB4B2797457A0A6E4
    assert prompt_hash([1, 2, 3]) == 0x9E3D6A5F74569CD6  # b2sum -l 64 of 01000000 02000000 03000000


@given(TOKEN_IDS)
def test_it_does_not_depend_on_the_kind_of_sequence(ids: list[int]) -> None:
    assert prompt_hash(ids) == prompt_hash(tuple(ids)) == prompt_hash(array("i", ids))
    assert 0 <= prompt_hash(ids) < PROMPT_HASHES


@given(TOKEN_IDS, TOKEN_IDS)
def test_different_prompts_have_different_hashes(one: list[int], other: list[int]) -> None:
    assert (prompt_hash(one) == prompt_hash(other)) is (one == other)
