"""Prompts and responses survive the wire; what is not understood is refused by its field."""

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.batch import Batch, SampleStart
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import LogprobKind, Prompt, SamplingParams, Speculation
from tlt_common.domain.response import FinishReason, PromptLogprobs, ResponseStats, RoutedExperts, TokenChunk
from tlt_common.domain.weights import ReleaseId, WeightsUpdate
from tlt_common.errors import InvalidRequestError
from tlt_common.wire import generation as wire
from tlt_common.wire import rollout, worker

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
    prompt_logprobs_start=st.none() | st.integers(0, 2**31 - 1),
)


ZERO_IS_ONE = st.sampled_from((None, 0, 1, 2**31 - 1))
"""Numbers of which 0 is a value."""


@given(st.fixed_dictionaries(dict.fromkeys(("policy_version", "max_staleness", "begun_version"), ZERO_IS_ONE)))
def test_0_is_a_value_and_not_unset(versions: dict[str, Any]) -> None:
    for number in (None, 0, 1, 2**31 - 1):
        prompt = Prompt(
            request_id=RequestId("r"),
            token_ids=(0,),
            attempt=number or 0,
            routed_experts_start=number,
            prompt_logprobs_start=number,
            sampling=SamplingParams(seed=number),
            **versions,
        )
        assert wire.prompt_from_pb(wire.prompt_to_pb(prompt)) == prompt
        batch = Batch(
            prompts=[prompt],
            samples_per_prompt=1,
            starts=[SampleStart(prompt_index=0, sample_index=0, begun_version=versions["begun_version"])],
        )
        decoded = rollout.batch_from_pb(rollout.batch_to_pb(batch))
        assert (list(decoded.prompts), list(decoded.starts)) == (batch.prompts, batch.starts)
        update = WeightsUpdate(version=versions["policy_version"], uri=None, base=versions["policy_version"])
        header = rollout.update_to_pb(update).header
        assert header.HasField("policy_version") == header.HasField("base_version") == (update.base is not None)
        assert header.policy_version == (update.version or 0)
        assert header.base_version == (update.base or 0)


@given(st.integers(0, 3), st.sampled_from(("", "k")), st.integers(0, 3))
def test_a_release_of_version_0_is_not_unset(version: int, key: str, other: int) -> None:
    release = ReleaseId(version=PolicyVersion(version), key=key)
    unset = not (version or key)
    assert worker.release_from_pb(worker.release_to_pb(release), other).version == (other if unset else version)


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
        prompt_logprobs=PromptLogprobs(first=1, logprobs=array("f", (-0.125, -2.5))),
    )
    assert wire.chunk_from_pb(wire.chunk_to_pb(chunk)) == chunk


def test_the_scores_of_a_prompt_of_one_token_are_empty_and_not_unset() -> None:
    scored = PromptLogprobs(first=1, logprobs=array("f"))
    chunk = TokenChunk(request_id=RequestId("r"), token_ids=(), logprobs=(), policy_versions=(), prompt_logprobs=scored)
    assert wire.chunk_from_pb(wire.chunk_to_pb(chunk)).prompt_logprobs == scored


def test_what_an_older_client_leaves_out_gets_its_default() -> None:
    prompt = wire.prompt_from_pb(rollout.pb.GenerateRequest().prompt)
    assert prompt == Prompt(request_id=RequestId(""), token_ids=())
    assert prompt.sampling.logprobs is LogprobKind.POLICY


@pytest.mark.parametrize(
    ("place", "name", "accepted"),
    [("sampling", "logprobs", "policy, raw, truncated"), ("prompt", "speculation", "auto, off")],
)
def test_an_unknown_kind_is_refused_by_name(place: str, name: str, accepted: str) -> None:
    message = wire.prompt_to_pb(Prompt(request_id=RequestId("r"), token_ids=(1,)))
    setattr(message.sampling if place == "sampling" else message, name, 9)  # what a newer client may send
    with pytest.raises(InvalidRequestError, match=f"accepted: {accepted}") as raised:
        wire.prompt_from_pb(message)
    assert raised.value.field == f"{place}.{name}"
