import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_worker.hardware.cores import share

machines = st.frozensets(st.integers(0, 255), min_size=1, max_size=64)


@given(cores=machines, replicas=st.integers(1, 16))
def test_even_shares_cover_the_machine_and_do_not_overlap(cores: frozenset[int], replicas: int) -> None:
    shares = [share(cores, per_worker=None, replicas=replicas, rank=rank) for rank in range(replicas)]
    assert all(shares)
    if replicas <= len(cores):
        assert sum(map(len, shares)) == len(cores)
        assert frozenset().union(*shares) == cores
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(cores=machines, replicas=st.integers(1, 16), per_worker=st.integers(1, 8))
def test_fixed_shares_have_the_asked_size_and_do_not_overlap(
    cores: frozenset[int], replicas: int, per_worker: int
) -> None:
    shares = [share(cores, per_worker=per_worker, replicas=replicas, rank=rank) for rank in range(replicas)]
    assert all(len(part) == min(per_worker, len(cores)) for part in shares)
    if per_worker * replicas <= len(cores):
        assert sum(map(len, shares)) == len(frozenset().union(*shares))


@pytest.mark.parametrize(("replicas", "rank", "per_worker"), [(0, 0, None), (2, 2, None), (2, -1, None), (1, 0, 0)])
def test_a_share_that_cannot_be_is_refused(replicas: int, rank: int, per_worker: int | None) -> None:
    with pytest.raises(ValueError, match="cannot divide 2 cores"):
        share({0, 1}, per_worker=per_worker, replicas=replicas, rank=rank)
