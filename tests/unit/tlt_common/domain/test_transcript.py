from array import array
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.merged_chunk import MergedChunk
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import FinishReason, PromptLogprobs, ResponseStats, TokenChunk
from tlt_common.domain.transcript import PROVEN_ROUNDS, Transcript

PROMPT = Prompt(
    request_id=RequestId("r"), token_ids=(1, 2), sampling=SamplingParams(max_new_tokens=20, min_new_tokens=5)
)


def chunk(*tokens: int, finish: FinishReason | None = None, rounds: int = 0) -> TokenChunk:
    stats = ResponseStats(
        prompt_tokens=9,
        completion_tokens=9,
        rounds=rounds,
        accepted_draft_tokens=3,
        proposed_draft_tokens=9,
        worker_id="w",
    )
    return TokenChunk(
        request_id=RequestId("r~1"),
        token_ids=tokens,
        logprobs=tuple(-0.5 for _ in tokens),
        policy_versions=tuple(PolicyVersion(1) for _ in tokens),
        finish_reason=finish,
        stats=stats if finish else None,
    )


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=5).filter(lambda parts: sum(map(len, parts)) < 20))
def test_the_rest_after_any_losses_continues_exactly_where_the_client_is(parts: list[list[int]]) -> None:
    transcript = Transcript(PROMPT)
    for part in parts:
        for token in part:
            transcript.add(chunk(token))
        transcript.move(died=True)
    sent = [token for part in parts for token in part]
    rest = transcript.rest()
    begun = PolicyVersion(1) if sent else None
    assert rest == replace(PROMPT, prefix_token_ids=tuple(sent), attempt=len(parts), begun_version=begun)


def test_stats_are_summed_over_workers_and_tokens_counted_once() -> None:
    transcript = Transcript(PROMPT)
    assert transcript.add(chunk(3, 4)).request_id == "r"
    transcript.add(chunk(5))
    transcript.move(died=True)
    last = transcript.add(chunk(6, 7, finish=FinishReason.STOP, rounds=10))
    assert last.request_id == "r"
    assert last.stats == ResponseStats(
        prompt_tokens=2,
        completion_tokens=5,
        rounds=2 + 10,
        accepted_draft_tokens=1 + 3,
        proposed_draft_tokens=1 + 9,
        worker_id="w",
    )


def test_a_chunk_that_merges_rounds_counts_all_of_them() -> None:
    transcript = Transcript(PROMPT)
    transcript.add(replace(chunk(3, 4, 5), rounds=2))
    transcript.move(died=False)
    last = transcript.add(chunk(6, finish=FinishReason.STOP, rounds=1))
    assert last.stats is not None
    assert (last.stats.rounds, last.stats.accepted_draft_tokens) == (2 + 1, 1 + 3)


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=8))
def test_merged_chunks_have_all_tokens_and_the_end_of_the_last(parts: list[list[int]]) -> None:
    merged, last = MergedChunk(), chunk(7, finish=FinishReason.STOP, rounds=1)
    for part in parts:
        merged.add(chunk(*part))
    merged.add(last)
    whole = merged.whole()
    sent = (*(token for part in parts for token in part), 7)
    assert whole.token_ids == sent
    assert (len(whole.logprobs), whole.policy_versions) == (len(sent), (1,) * len(sent))
    assert (whole.finish_reason, whole.stats) == (FinishReason.STOP, last.stats)
    assert whole.rounds == sum(map(bool, parts)) + 1


def test_a_prefix_that_came_with_the_request_goes_first() -> None:
    transcript = Transcript(replace(PROMPT, prefix_token_ids=(3, 4)))
    transcript.add(chunk(5))
    transcript.move(died=True)
    assert transcript.rest().prefix_token_ids == (3, 4, 5)
    last = transcript.add(chunk(6, finish=FinishReason.STOP, rounds=1))
    assert last.stats is not None
    assert last.stats.completion_tokens == 2


def test_a_response_whose_last_word_was_lost_is_still_complete() -> None:
    stopped = Transcript(replace(PROMPT, sampling=SamplingParams(max_new_tokens=9, stop_token_ids=(7,))))
    stopped.add(chunk(3, 7))
    assert stopped.finish_reason is FinishReason.STOP
    full = Transcript(replace(PROMPT, prefix_token_ids=(9,), sampling=SamplingParams(max_new_tokens=3)))
    full.add(chunk(3, 7))
    assert full.finish_reason is FinishReason.LENGTH
    assert not full.closed
    ended = full.end(FinishReason.LENGTH)
    assert ended.stats is not None
    assert ended.stats.completion_tokens == 2
    assert full.closed


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2 * PROVEN_ROUNDS)), max_size=8))
def test_only_deaths_before_the_response_got_further_make_a_request_suspect(losses: list[tuple[bool, int]]) -> None:
    transcript = Transcript(
        Prompt(request_id=RequestId("r"), token_ids=(1,), sampling=SamplingParams(max_new_tokens=99))
    )
    deaths = 0
    for died, rounds in losses:
        for _ in range(rounds):
            transcript.add(chunk(3))
        transcript.move(died=died)
        if died:
            deaths = deaths + 1 if rounds < PROVEN_ROUNDS else 1
        assert transcript.is_suspect == (deaths >= 2)


def test_a_response_that_is_handed_over_continues_and_counts_as_no_loss() -> None:
    transcript = Transcript(PROMPT)
    transcript.add(chunk(3, 4))
    transcript.hand_over()
    assert (transcript.moves, transcript.ended_attempts, transcript.is_suspect) == (0, 1, False)
    assert transcript.rest() == replace(PROMPT, prefix_token_ids=(3, 4), attempt=1, begun_version=PolicyVersion(1))
    last = transcript.add(chunk(5, finish=FinishReason.STOP, rounds=1))
    assert last.stats is not None
    assert (last.stats.completion_tokens, last.stats.rounds) == (3, 2)


def versioned(*versions: int, finish: FinishReason | None = None) -> TokenChunk:
    found = chunk(*range(len(versions)), finish=finish)
    return replace(found, policy_versions=tuple(map(PolicyVersion, versions)), rounds=len(versions))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(0, 5), st.integers(1, 4))
def test_no_token_is_further_from_the_first_than_the_staleness_allows(
    versions: list[int], allowed: int, size: int
) -> None:
    versions.sort()
    transcript, kept = Transcript(replace(PROMPT, max_staleness=allowed)), list[int]()
    for begin in range(0, len(versions), size):
        part = versioned(*versions[begin : begin + size])
        fresh = transcript.fresh(part)
        kept += transcript.add(fresh).policy_versions
        if fresh is not part:
            assert len(fresh.policy_versions) < len(part.policy_versions)
            break
    assert kept == [version for version in versions if version - versions[0] <= allowed]
    assert all(transcript.is_stale(PolicyVersion(v)) == (v - versions[0] > allowed) for v in range(7))


def test_a_cut_chunk_does_not_finish_the_response() -> None:
    transcript = Transcript(replace(PROMPT, max_staleness=0))
    cut = transcript.fresh(versioned(3, 3, 4, finish=FinishReason.STOP))
    assert (cut.policy_versions, cut.finish_reason, cut.stats, cut.rounds) == ((3, 3), None, None, 2)
    whole = versioned(3, 3, finish=FinishReason.STOP)
    assert transcript.fresh(whole) is whole


def test_staleness_counts_from_the_first_token_of_all_attempts() -> None:
    transcript = Transcript(replace(PROMPT, max_staleness=1))
    assert not transcript.is_stale(PolicyVersion(9))
    transcript.add(versioned(3))
    transcript.move(died=False)
    later = Transcript(transcript.rest())
    assert (later.is_stale(PolicyVersion(4)), later.is_stale(PolicyVersion(5))) == (False, True)
    assert later.fresh(versioned(5)).token_ids == ()


SCORED = PromptLogprobs(first=1, logprobs=array("f", (-0.25,)))
ASKING = replace(PROMPT, prompt_logprobs_start=0)


def test_a_later_attempt_asks_for_the_prompts_logprobs_only_if_they_have_not_come() -> None:
    transcript = Transcript(ASKING)
    transcript.move(died=True)
    assert transcript.rest().prompt_logprobs_start == 0
    assert transcript.add(replace(chunk(3), prompt_logprobs=SCORED)).prompt_logprobs == SCORED
    transcript.move(died=True)
    assert transcript.rest().prompt_logprobs_start is None


@given(st.integers(1, 4))
def test_what_is_merged_keeps_the_prompts_logprobs(count: int) -> None:
    first, *others = replace(chunk(3), prompt_logprobs=SCORED), *(chunk(token) for token in range(count - 1))
    merged, followed = MergedChunk(), first
    merged.add(first)
    for other in others:
        merged.add(other)
        followed = followed.followed_by(other)
    assert merged.whole().prompt_logprobs == followed.prompt_logprobs == SCORED


def test_a_stale_response_keeps_the_prompts_logprobs() -> None:
    transcript = Transcript(replace(ASKING, max_staleness=0))
    versions = (PolicyVersion(1), PolicyVersion(2))
    fresh = transcript.fresh(replace(chunk(3, 4), policy_versions=versions, prompt_logprobs=SCORED))
    assert (fresh.token_ids, fresh.prompt_logprobs) == ((3,), SCORED)
