"""Which tokens a reduced head covers."""

from hypothesis import given
from hypothesis import strategies as st

from tlt_worker.scheduler.drafts.head_tokens import EVERY_TOKENS, FIRST_TOKENS, HeadTokens


def test_it_covers_what_is_said_and_chooses_again() -> None:
    chosen = HeadTokens(100, shard=128, ranks=1, covered=10)
    assert chosen.tokens == [list(range(10))]
    chosen.said([95] * (FIRST_TOKENS - 1))
    assert chosen.choose() == []
    chosen.said([96])
    assert chosen.choose()[0].tokens == [[*range(8), 95, 96]]
    assert chosen.choose() == []
    assert chosen.coverage == 1.0
    chosen.said([50] * EVERY_TOKENS * 2)
    assert chosen.choose()[0].tokens == [[*range(7), 50, 95, 96]]


def test_a_choice_that_covers_hardly_more_is_not_made() -> None:
    chosen = HeadTokens(100, shard=128, ranks=1, covered=10)
    chosen.said([*([3] * 5000), 95])
    assert chosen.choose() == []


@given(
    st.integers(1, 4),
    st.integers(1, 300),
    st.lists(st.integers(0, 10_000), min_size=FIRST_TOKENS, max_size=FIRST_TOKENS + 200),
)
def test_ranks_cover_tokens_of_their_own_shards(ranks: int, vocabulary: int, said: list[int]) -> None:
    shard = -(-vocabulary // ranks)
    chosen = HeadTokens(vocabulary, shard=shard, ranks=ranks, covered=5)
    chosen.said(token % vocabulary for token in said)
    chosen.choose()
    for rank, mine in enumerate(chosen.tokens):
        assert len(set(mine)) == len(mine) <= 5
        assert all(rank * shard <= token < min(vocabulary, (rank + 1) * shard) for token in mine)
