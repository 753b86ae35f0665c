from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tlt_worker.lending.trained_time import TrainedTime


@given(st.lists(st.lists(st.floats(0.0, 1000.0), max_size=10), max_size=5))
def test_it_is_the_sum_of_the_highest_counters_and_only_increases(processes: list[list[float]]) -> None:
    trained, seen = TrainedTime(), [0.0]
    for counters in processes:
        for at_s, counter_s in enumerate(counters):
            trained.read(counter_s, float(at_s))
            seen.append(trained.seconds)
        trained.restart()
    assert all(earlier <= later for earlier, later in pairwise(seen))
    assert abs(trained.seconds - sum(max(counters, default=0.0) for counters in processes)) < 1e-6


def test_its_age_is_counted_from_the_moment_the_trainer_was_asked() -> None:
    trained = TrainedTime()
    trained.read(3.0, asked_at_s=10.0)
    trained.read(2.0, asked_at_s=9.0)  # an older response that arrives late
    assert (trained.seconds, trained.age_s(12.0)) == (3.0, 2.0)
