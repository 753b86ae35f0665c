from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.ids import PolicyVersion, RequestId, WorkerId
from tlt_common.domain.prompt import Prompt
from tlt_gateway.queue.affinity import Affinity, keys_of
from tlt_gateway.workers.routing import Candidate, RoutingTable

OLD, NEW = PolicyVersion(0), PolicyVersion(1)


def worker(name: str, *, losses: int = 0) -> Candidate:
    return Candidate(worker_id=WorkerId(name), policy_version=OLD, max_running=8, slots=8, assigned=0, losses=losses)


def turn(tokens: int, session: str = "", *, first: int = 0) -> Prompt:
    ids = tuple(range(first, first + tokens))
    return Prompt(request_id=RequestId(""), token_ids=ids, session_id=session)


def sent(affinity: Affinity, prompt: Prompt, to: Candidate, *, owner: str = "me", **at: Any) -> None:
    affinity.sent(keys_of(replace(prompt, owner=owner)), to, tokens=len(prompt.token_ids), **at)


def cached(
    affinity: Affinity, prompt: Prompt, candidates: Sequence[Candidate], *, owner: str = "me", **at: Any
) -> dict[WorkerId, int]:
    table = RoutingTable(spill_load=0.25)
    for candidate in candidates:
        table.put(candidate)
    return affinity.cached(keys_of(replace(prompt, owner=owner)), table, length=len(prompt.token_ids), **at)


A, B = worker("a"), worker("b")


def test_a_turn_finds_the_workers_of_the_earlier_ones() -> None:
    affinity = Affinity()
    sent(affinity, turn(10, "s"), A, version=OLD, now_s=0.0)
    assert cached(affinity, turn(30, "s"), [A, B], version=OLD, now_s=1.0) == {"a": 10}
    sent(affinity, turn(30, "s"), B, version=OLD, now_s=1.0)
    assert cached(affinity, turn(50, "s"), [A, B], version=OLD, now_s=2.0) == {"a": 10, "b": 30}
    assert cached(affinity, turn(50, "other"), [A, B], version=OLD, now_s=2.0) == {}


def test_samples_of_a_prompt_find_each_other_without_a_session() -> None:
    affinity = Affinity()
    sent(affinity, turn(10), A, version=OLD, now_s=0.0)
    assert cached(affinity, turn(10), [A, B], version=OLD, now_s=0.0) == {"a": 10}
    assert cached(affinity, turn(10, "first turn"), [A, B], version=OLD, now_s=0.0) == {"a": 10}
    assert cached(affinity, turn(10, first=1), [A, B], version=OLD, now_s=0.0) == {}


def test_a_session_that_was_cut_back_has_no_more_cached_than_its_prompt() -> None:
    affinity = Affinity()
    sent(affinity, turn(30, "s"), A, version=OLD, now_s=0.0)
    assert cached(affinity, turn(5, "s"), [A], version=OLD, now_s=0.0) == {"a": 5}


def test_nothing_is_cached_with_other_weights_or_on_a_worker_that_was_lost() -> None:
    affinity = Affinity()
    sent(affinity, turn(10, "s"), A, version=OLD, now_s=0.0)
    assert cached(affinity, turn(10, "s"), [A], version=NEW, now_s=0.0) == {}
    assert cached(affinity, turn(10, "s"), [worker("a", losses=1)], version=OLD, now_s=0.0) == {}
    assert cached(affinity, turn(10, "s"), [B], version=OLD, now_s=0.0) == {}
    sent(affinity, turn(10, "s"), B, version=NEW, now_s=0.0)
    assert cached(affinity, turn(10, "s"), [A, B], version=NEW, now_s=0.0) == {"b": 10}


def test_a_finished_session_is_forgotten() -> None:
    affinity = Affinity()
    sent(affinity, turn(10, "s"), A, version=OLD, now_s=0.0)
    assert affinity.forget("s", owner="me")
    assert not affinity.forget("s", owner="me")
    assert cached(affinity, turn(20, "s"), [A], version=OLD, now_s=0.0) == {}


def test_what_is_cached_under_another_key_is_not_used() -> None:
    affinity = Affinity()
    mine, theirs = (replace(turn(20), cache_key=key) for key in ("mine", "theirs"))
    sent(affinity, mine, A, version=OLD, now_s=0.0)
    assert cached(affinity, mine, [A], version=OLD, now_s=0.0) == {A.worker_id: 20}
    assert cached(affinity, theirs, [A], version=OLD, now_s=0.0) == {}


def test_a_session_is_its_owners() -> None:
    affinity = Affinity()
    sent(affinity, turn(10, "s"), A, version=OLD, now_s=0.0)
    assert cached(affinity, turn(20, "s"), [A], owner="other", version=OLD, now_s=0.0) == {}
    assert not affinity.forget("s", owner="other")
    assert cached(affinity, turn(20, "s"), [A], version=OLD, now_s=0.0) == {"a": 10}


def test_idle_sessions_expire_in_the_order_of_their_last_use() -> None:
    affinity = Affinity(idle_s=10.0)
    sent(affinity, turn(1, "s", first=1), A, version=OLD, now_s=0.0)
    sent(affinity, turn(1, "t", first=2), A, version=OLD, now_s=1.0)
    sent(affinity, turn(1, "s", first=1), A, version=OLD, now_s=9.0)
    assert cached(affinity, turn(5, "t"), [A], version=OLD, now_s=12.0) == {}
    assert cached(affinity, turn(5, "s"), [A], version=OLD, now_s=12.0) == {"a": 1}


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60), st.integers(1, 8))
def test_memory_is_bounded_and_the_newest_turn_is_remembered(turns: list[tuple[int, int]], most: int) -> None:
    affinity = Affinity(most=most)
    for session, first in turns:
        sent(affinity, turn(3, f"s{session}", first=first), A, version=OLD, now_s=0.0)
        assert len(affinity) <= most
        assert cached(affinity, turn(3, first=first), [A], version=OLD, now_s=0.0) == {"a": 3}
