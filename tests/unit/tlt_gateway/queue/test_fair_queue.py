from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tlt_gateway.queue.fair_queue import FairQueue

OWNERS = st.sampled_from("abc")


@given(st.lists(OWNERS, min_size=1), st.fixed_dictionaries({owner: st.integers(1, 9) for owner in "abc"}))
def test_everything_comes_out_once_and_each_owners_in_order(owners: list[str], weights: dict[str, int]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue(lambda owner: weights[owner])
    for number, owner in enumerate(owners):
        queue.push((owner, number), owner)
    taken = []
    while queue:
        head = queue.head()
        taken.append(queue.pop())
        assert taken[-1] == head
    assert sorted(taken, key=lambda item: item[1]) == list(zip(owners, range(len(owners)), strict=True))
    for owner in set(owners):
        mine = [number for name, number in taken if name == owner]
        assert mine == sorted(mine)


@given(
    st.fixed_dictionaries({owner: st.integers(1, 9) for owner in "abc"}),
    st.lists(OWNERS, max_size=20),
    st.integers(1, 200),
)
def test_owners_that_wait_share_by_weight_whoever_came_first(
    weights: dict[str, int], earlier: list[str], count: int
) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue(lambda owner: weights[owner])
    for number, owner in enumerate(earlier):
        queue.push((owner, -number - 1), owner)
    for _ in earlier:
        queue.pop()
    for owner in weights:
        for number in range(count):
            queue.push((owner, number), owner)
    taken = Counter(queue.pop()[0] for _ in range(count))
    shares = {owner: count * weight / sum(weights.values()) for owner, weight in weights.items()}
    for owner, share in shares.items():
        assert abs(taken[owner] - share) <= len(weights), (taken, shares)


@given(st.integers(1, 1000))
def test_a_flood_of_one_owner_delays_another_by_one_turn(flood: int) -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(flood):
        queue.push(f"flood{number}", "a")
    queue.pop()
    queue.push("late", "b")
    assert "late" in {queue.pop() for _ in range(min(2, len(queue)))}


def test_an_owner_that_was_idle_has_saved_up_nothing() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(100):
        queue.push(f"a{number}", "a")
    for _ in range(50):
        queue.pop()
    for number in range(100):
        queue.push(f"b{number}", "b")
    assert Counter(queue.pop()[0] for _ in range(20)) == {"a": 10, "b": 10}


def test_what_was_moved_goes_ahead_of_its_owners_and_what_was_removed_is_gone() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in ("one", "two", "three"):
        queue.push(item, "a")
    queue.push("moved", "a", first=True)
    queue.remove("two")
    assert "two" not in queue
    assert [queue.pop() for _ in range(len(queue))] == ["moved", "one", "three"]


@given(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), min_size=1, max_size=60))
def test_whoever_returns_is_served_after_at_most_two_turns_of_each_other_owner(
    floods: int, returns: list[tuple[int, int]]
) -> None:
    """Owners with one request at a time, which return after some turns, beside owners with a thousand queued."""
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for number in range(1000):
        for flood in range(floods):
            queue.push((f"flood{flood}", number), f"flood{flood}")
    pushed, turn = dict[str, int](), 0
    for number, (index, pause) in enumerate(returns):
        if (owner := f"single{index}") not in pushed:
            queue.push((owner, number), owner)
            pushed[owner] = turn
        for _ in range(pause):
            taken, _ = queue.pop()
            turn += 1
            if taken in pushed:
                assert turn - pushed.pop(taken) <= 2 * (floods + 9)


def test_an_owner_with_one_request_at_a_time_takes_no_more_than_its_share() -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for number in range(1000):
        queue.push(("flood", number), "flood")
    taken = Counter[str]()
    queue.push(("quick", 0), "quick")
    for number in range(1, 101):
        owner, _ = queue.pop()
        taken[owner] += 1
        if owner == "quick":  # back before anything else is taken
            queue.push(("quick", number), "quick")
    assert taken == {"flood": 50, "quick": 50}


def test_what_leaves_the_queue_unserved_costs_its_owner_nothing() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(100):
        queue.push(f"gone{number}", "a")
        queue.push(f"b{number}", "b")
    for number in range(100):
        queue.remove(f"gone{number}")
    for number in range(100):
        queue.push(f"a{number}", "a")
    assert Counter(queue.pop()[0] for _ in range(20)) == {"a": 10, "b": 10}
