"""Remembered turns of conversations."""

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tlt_gateway.http.openai.conversation import ConversationBody
from tlt_gateway.http.openai.turns import TURN_BYTES, Turn, TurnKey, Turns, keys_of


def key(digest: int, session: str = "s", owner: str = "") -> TurnKey:
    return TurnKey(owner=owner, session=session, digest=bytes([digest]))


def turn(ids: Iterable[int]) -> Turn:
    return Turn(token_ids=list(ids), ended=True)


def ids(turns: Turns, one: TurnKey) -> list[int] | None:
    found = turns.get(one)
    return None if found is None else list(found.token_ids)


def last(messages: list[dict[str, Any]], **fields: Any) -> TurnKey:
    body = ConversationBody.model_validate({"messages": messages, **fields})
    return list(keys_of(body, body.messages, owner="", session=""))[-1]


def test_the_longest_unused_conversation_is_forgotten_first_and_wholly() -> None:
    turns = Turns(max_bytes=2 * TURN_BYTES + 32)
    turns.add(key(1, "a"), turn(range(4)))
    turns.add(key(2, "b"), turn(range(4)))
    assert ids(turns, key(1, "a")) == [0, 1, 2, 3]
    turns.add(key(3, "c"), turn(range(4)))
    assert (ids(turns, key(2, "b")), ids(turns, key(1, "a"))) == (None, [0, 1, 2, 3])
    assert turns.is_forgotten(key(2, "b"))
    assert not turns.is_forgotten(key(1, "a"))
    assert (turns.forgotten, turns.bytes) == (1, 2 * TURN_BYTES + 32)
    turns.add(key(4, "d"), turn(range(TURN_BYTES)))
    assert (turns.forgotten, turns.bytes) == (4, 0), "it has no room for a conversation that is larger than all of it"
    turns.add(key(2, "b"), turn(range(4)))
    assert not turns.is_forgotten(key(2, "b"))


def talk(turns: Turns, session: str, *, count: int, tokens: int, owner: str = "") -> TurnKey:
    """Have a conversation of so many turns of so many tokens each, as in chats; return the key of the last."""
    before, said = list[TurnKey](), list[int]()
    for number in range(count):
        said += [number * tokens + place for place in range(tokens)]
        now = TurnKey(owner=owner, session=session, digest=f"{session} {number}".encode())
        turns.add(now, turn(said), before=before)
        before.append(now)
    return before[-1]


def test_a_conversation_takes_its_tokens_once_however_many_turns_it_has() -> None:
    """1,024 sessions of 16,000 tokens each fit into the default."""
    turns = Turns()
    last = [talk(turns, f"s{number}", count=16, tokens=1000) for number in range(1024)]
    assert turns.forgotten == 0
    assert turns.bytes == 1024 * 16 * (TURN_BYTES + 4000)
    for one in last[::100]:
        assert ids(turns, one) == list(range(16_000))


def test_beyond_that_the_oldest_sessions_are_forgotten_wholly_and_counted() -> None:
    turns = Turns(max_bytes=2**20)
    last = [talk(turns, f"s{number}", count=4, tokens=1000) for number in range(100)]
    kept = 2**20 // (4 * (TURN_BYTES + 4000))
    assert turns.forgotten == 100 - kept
    assert [turns.get(one) is not None for one in last] == [False] * (100 - kept) + [True] * kept
    assert [turns.is_forgotten(one) for one in last] == [True] * (100 - kept) + [False] * kept
    assert ids(turns, last[-1]) == list(range(4000))
    assert turns.bytes <= 2**20


def test_no_owner_displaces_what_another_has_within_an_equal_share() -> None:
    turns = Turns(max_bytes=2**20)
    few = [talk(turns, f"s{number}", count=1, tokens=1000, owner="few") for number in range(20)]
    for number in range(1000):
        talk(turns, f"s{number}", count=1, tokens=1000, owner="many")
    assert all(turns.get(one) is not None for one in few)


def test_of_a_conversation_that_is_too_large_the_newest_line_is_kept() -> None:
    turns = Turns(max_bytes=2**16)
    first = key(0)
    turns.add(first, turn(range(1000)))
    for branch in range(1, 200):
        turns.add(key(branch), turn([*range(1000), *[branch] * 100]), before=[first])
    assert ids(turns, key(199)) == [*range(1000), *[199] * 100]
    assert ids(turns, first) == list(range(1000))
    assert ids(turns, key(1)) is None
    assert turns.bytes <= 2**16
    assert turns.forgotten == 0


steps = st.lists(
    st.tuples(
        st.integers(0, 2),  # session
        st.integers(0, 5),  # turn
        st.none() | st.integers(0, 5),  # the one before
        st.integers(0, 3),  # tokens of it that are left out at its end
        st.lists(st.integers(0, 9), min_size=1, max_size=4),
        st.booleans(),
    ),
    max_size=40,
)


@given(steps, st.sampled_from((3 * TURN_BYTES, 10 * TURN_BYTES, 2**20)))
def test_whatever_turns_share_each_is_remembered_as_it_was_or_not_at_all(
    steps: list[tuple[int, int, int | None, int, list[int], bool]], room: int
) -> None:
    turns, said = Turns(max_bytes=room), dict[TurnKey, Turn]()
    for session, number, before, left_out, more, ended in steps:
        now = key(number, str(session) if session else "")
        earlier = key(before, now.session) if before is not None else None
        begun = list(said[earlier].token_ids) if earlier in said else []
        said[now] = Turn(token_ids=[*begun[: len(begun) - left_out], *more], ended=ended)
        turns.add(now, said[now], before=[earlier] if earlier is not None else ())
        assert turns.bytes <= room
        found = {one: kept for one in said if (kept := turns.get(one)) is not None}
        assert all(list(kept.token_ids) == list(said[one].token_ids) for one, kept in found.items())
        assert all(kept.ended is said[one].ended for one, kept in found.items())
        if room == 2**20:
            assert found.keys() == said.keys()
            assert (turns.bytes > 0) is bool(said)
    for name in ("1", "2"):
        turns.finish("", name)
    assert not any(turns.get(one) for one in said if one.session)


def test_a_session_is_finished_for_its_owner_alone() -> None:
    turns = Turns()
    for one in (key(1), key(2), key(3, "t"), key(4, owner="other")):
        turns.add(one, turn([1]))
    assert (turns.finish("", "s"), turns.bytes) == (2, 2 * (TURN_BYTES + 4))
    assert (turns.finish("", "s"), turns.finish("", "t"), turns.finish("other", "s"), turns.bytes) == (0, 1, 1, 0)
    assert not turns.is_forgotten(key(1))


def test_it_is_remembered_whether_the_last_token_ended_the_response() -> None:
    turns = Turns()
    for ended in (True, False):
        turns.add(key(1), Turn(token_ids=[1], ended=ended))
        found = turns.get(key(1))
        assert found is not None
        assert found.ended is ended


def test_a_turn_is_known_by_what_was_said_and_under_which_conditions() -> None:
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": " b\n"}]
    assert last(said) == last(
        [{"role": "user", "content": [{"type": "text", "text": "a"}]}, {**said[1], "content": "b"}]
    )
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    spaced = {**call, "function": {"name": "f", "arguments": '{ "x":1 }'}}
    assert last([{"role": "assistant", "tool_calls": [call]}]) == last([{"role": "assistant", "tool_calls": [spaced]}])
    others = [
        last([{"role": "user", "content": "A"}, said[1]]),
        last(said[1:]),
        last(said, chat_template_kwargs={"x": 1}),
        last(said, tools=[{}]),
        last([said[0], {"role": "assistant", "content": "b", "tool_calls": [call]}]),
    ]
    assert len({*others, last(said)}) == len(others) + 1
