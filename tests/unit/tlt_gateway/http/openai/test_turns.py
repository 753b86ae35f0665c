"""Remembered turns of conversations."""

from collections.abc import Iterable
from typing import Any

from tlt_gateway.http.openai.conversation import ConversationBody
from tlt_gateway.http.openai.turns import Turn, TurnKey, Turns, keys_of


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


def test_the_longest_unused_turns_are_forgotten_first() -> None:
    turns = Turns(most=10)
    turns.add(key(1), turn(range(4)))
    turns.add(key(2), turn(range(4)))
    assert ids(turns, key(1)) == [0, 1, 2, 3]
    turns.add(key(3), turn(range(4)))
    assert (ids(turns, key(2)), ids(turns, key(1)), turns.tokens) == (None, [0, 1, 2, 3], 8)
    turns.add(key(1), turn(range(2)))
    assert (ids(turns, key(1)), turns.tokens) == ([0, 1], 6)
    turns.add(key(4), turn(range(11)))
    assert turns.tokens == 0
    few = Turns(most_turns=1)
    few.add(key(1), turn([1]))
    few.add(key(2), turn([2]))
    assert (ids(few, key(1)), ids(few, key(2))) == (None, [2])


def test_a_session_is_finished_for_its_owner_alone() -> None:
    turns = Turns()
    for one in (key(1), key(2), key(3, "t"), key(4, owner="other")):
        turns.add(one, turn([1]))
    assert (turns.finish("", "s"), turns.tokens) == (2, 2)
    assert (turns.finish("", "s"), turns.finish("", "t"), turns.finish("other", "s"), turns.tokens) == (0, 1, 1, 0)


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
