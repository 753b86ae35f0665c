"""Sessions of the conversations in TRL's tool loop."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tlt_common.client import TokenChunk
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.integrations.trl.conversation import Conversations

IDS = st.lists(st.integers(0, 2), min_size=1, max_size=4)  # few ids, so that some conversations begin alike
TURNS = st.lists(st.tuples(IDS, IDS, st.booleans()), min_size=1, max_size=6)


def answered(conversations: Conversations, prompts: Sequence[Sequence[int]], response: Sequence[int]) -> list[str]:
    sessions = conversations.sessions(prompts)
    conversations.answered(prompts, sessions, [chunk(response)] * len(prompts))
    return sessions


def chunk(ids: Sequence[int]) -> TokenChunk:
    versions = (PolicyVersion(0),) * len(ids)
    return TokenChunk(
        request_id=RequestId("r"), token_ids=tuple(ids), logprobs=(0.0,) * len(ids), policy_versions=versions
    )


def test_every_response_to_a_prompt_begins_a_session_of_its_own() -> None:
    assert len(set(Conversations().sessions([[3, 4]] * 4))) == 4


def test_equal_conversations_that_call_a_tool_stay_apart() -> None:
    conversations = Conversations()
    begun = answered(conversations, [[3, 4]] * 3, [5])
    assert answered(conversations, [[3, 4, 5, 9]] * 3, [6]) == begun
    assert conversations.sessions([[3, 4, 5, 9, 6, 9]] * 3) == begun


def test_a_prompt_that_continues_nothing_begins_a_session() -> None:
    conversations = Conversations()
    (begun,) = answered(conversations, [[3, 4]], [5])
    for other in ([3, 4, 6, 5], [3, 4, 5], [3], [7, 4, 5, 9]):
        assert conversations.sessions([other]) != [begun]


@given(TURNS)
def test_those_that_go_on_keep_a_session_whose_turns_they_continue(
    turns: list[tuple[list[int], list[int], bool]],
) -> None:
    conversations = Conversations()
    prompts, responses = [prompt for prompt, _, _ in turns], [response for _, response, _ in turns]
    begun = conversations.sessions(prompts)
    conversations.answered(prompts, begun, list(map(chunk, responses)))
    going_on = [index for index, (_, _, goes_on) in enumerate(turns) if goes_on]
    history = dict(
        zip(begun, [prompt + response for prompt, response in zip(prompts, responses, strict=True)], strict=True)
    )
    continued = conversations.sessions([prompts[index] + responses[index] + [9] for index in going_on])
    assert len(set(continued)) == len(going_on)
    for index, session in zip(going_on, continued, strict=True):
        whole = prompts[index] + responses[index]
        assert whole[: len(history[session])] == history[session]
