"""Prompts and responses survive the wire; what is not understood is refused by its field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import LogprobKind, Prompt, SamplingParams, Speculation
from tlt_common.domain.response import FinishReason, ResponseStats, RoutedExperts, TokenChunk
from tlt_common.errors import InvalidRequestError
from tlt_common.wire import generation as wire
from tlt_common.wire import rollout

TOKENS = st.lists(st.integers(0, 2**31 - 1), max_size=5).map(tuple)
SAMPLING = st.builds(
    SamplingParams,
    temperature=st.floats(0, 100),
    top_p=st.floats(0.01, 1),
    top_k=st.integers(0, 2**31 - 1),
    min_p=st.floats(0, 1),
    max_new_tokens=st.none() | st.integers(1, 2**31 - 1),
    stop_token_ids=TOKENS,
    stop=st.lists(st.text(min_size=1, max_size=9), max_size=3).map(tuple),
    ignore_eos=st.booleans(),
    seed=st.none() | st.integers(0, 2**63 - 1),
    frequency_penalty=st.floats(-2, 2),
    presence_penalty=st.floats(-2, 2),
    repetition_penalty=st.floats(0.01, 2),
    min_new_tokens=st.integers(0, 2**31 - 1),
    logprobs=st.sampled_from(LogprobKind),
)
PROMPTS = st.builds(
    Prompt,
    request_id=st.text(max_size=5).filter(str.isprintable).map(RequestId),
    token_ids=TOKENS,
    sampling=SAMPLING,
    speculation=st.sampled_from(Speculation),
    capture=st.booleans(),
    policy_version=st.none() | st.integers(0, 2**62).map(PolicyVersion),
    prefix_token_ids=TOKENS,
    session_id=st.text(max_size=5).filter(str.isprintable),
    routed_experts_start=st.none() | st.integers(0, 2**31 - 1),
)


@given(PROMPTS)
def test_prompts_survive_the_wire(prompt: Prompt) -> None:
    assert wire.prompt_from_pb(wire.prompt_to_pb(prompt)) == prompt


def test_responses_survive_the_wire() -> None:
    stats = ResponseStats(
        prompt_tokens=1, completion_tokens=2, rounds=3, accepted_draft_tokens=4, proposed_draft_tokens=5,
        speculation_blocker="b", worker_id="w", cached_tokens=1,
    )  # fmt: skip
    chunk = TokenChunk(
        request_id=RequestId("r"),
        token_ids=(1, 2),
        logprobs=(-0.5, -0.25),
        policy_versions=(PolicyVersion(1), PolicyVersion(2)),
        finish_reason=FinishReason.STOP,
        stats=stats,
        matched_stop="</search>",
        routed_experts=RoutedExperts(first=1, layers=2, top_k=1, dtype="U8", data=b"\x00\x07"),
    )
    assert wire.chunk_from_pb(wire.chunk_to_pb(chunk)) == chunk


def test_what_an_older_client_leaves_out_gets_its_default() -> None:
    prompt = wire.prompt_from_pb(rollout.pb.GenerateRequest().prompt)
    assert prompt == Prompt(request_id=RequestId(""), token_ids=())
    assert prompt.sampling.logprobs is LogprobKind.POLICY


def test_an_unknown_kind_of_logprobs_is_refused_by_name() -> None:
    message = wire.prompt_to_pb(Prompt(request_id=RequestId("r"), token_ids=(1,)))
    message.sampling.logprobs = 9  # type: ignore[assignment] # what a newer client may send
    with pytest.raises(InvalidRequestError, match="accepted: policy, raw, truncated") as raised:
        wire.prompt_from_pb(message)
    assert raised.value.field == "sampling.logprobs"


def test_an_unknown_kind_of_speculation_is_refused_by_name() -> None:
    message = wire.prompt_to_pb(Prompt(request_id=RequestId("r"), token_ids=(1,)))
    message.speculation = 9  # type: ignore[assignment] # what a newer client may send
    with pytest.raises(InvalidRequestError, match="accepted: auto, off") as raised:
        wire.prompt_from_pb(message)
    assert raised.value.field == "prompt.speculation"
