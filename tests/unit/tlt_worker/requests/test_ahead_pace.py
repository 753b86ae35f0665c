"""How many responses run ahead: as many as keep a round short, found by rounds of all that run."""

from collections.abc import Callable

import pytest

from tlt_common.domain.ids import RequestId
from tlt_worker.requests.ahead_pace import MAX_ROUND_S, AheadPace, joined

Cost = Callable[[int], float]


def settled(cost_s: Cost, *, places: int = 64, rounds: int = 100) -> int:
    """Let as many begin as there is room for, before each of these rounds; return how many run in the end."""
    pace, names, now_s = AheadPace(places), list[RequestId](), 0.0
    for _ in range(rounds):
        for _ in range(pace.free_slots):
            names.append(RequestId(f"{len(names)}"))
            pace.begin(names[-1])
        now_s += cost_s(len(names))
        for name in names:
            pace.note(name, now_s)
    return len(names)


@pytest.mark.parametrize(
    ("cost_s", "expected"),
    [
        (lambda n: 0.02 * n, 4),  # a CPU: twice as long with twice as many
        (lambda _: 0.02, 63),  # a GPU, on which a round of many is as short as one of few
        (lambda _: 1.0, 1),
        (lambda n: 0.01 + 0.002 * n, 34),
    ],
)
def test_rounds_are_as_full_as_they_are_short(cost_s: Cost, expected: int) -> None:
    running = settled(cost_s)
    assert running == expected
    assert running == 1 or cost_s(running) <= MAX_ROUND_S * 1.001


def test_a_place_is_left_for_a_request() -> None:
    assert settled(lambda _: 0.001, places=8) == 7
    assert settled(lambda _: 0.001, places=1) == 1


def test_a_round_that_read_a_prompt_tells_nothing() -> None:
    pace = AheadPace(8)
    first, second = RequestId("a"), RequestId("b")
    pace.begin(first)
    pace.note(first, 0.0)
    pace.note(first, 0.01)
    assert pace.free_slots == 1
    pace.begin(second)
    pace.note(first, 0.02)  # the second has no token yet
    assert pace.free_slots == 0
    pace.note(second, 0.5)
    pace.note(first, 0.5)  # began before the second's first token
    assert pace.free_slots == 0
    pace.note(first, 0.51)
    assert pace.free_slots == 2


def test_longer_rounds_let_responses_end_without_followers() -> None:
    pace = AheadPace(8)
    names = [RequestId(f"{place}") for place in range(4)]
    for name in names:
        pace.begin(name)
        pace.note(name, 0.0)
    pace.note(names[0], 2 * MAX_ROUND_S)
    assert pace.free_slots == -2
    pace.end(names[0])
    assert pace.free_slots == -1


def test_a_round_without_duration_allows_twice_as_many() -> None:
    assert joined(3, 0.0) == 6
