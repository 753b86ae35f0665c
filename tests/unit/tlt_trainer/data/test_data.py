"""From frames to batches: nothing is lost, mixed, or trained on that is kept for scoring."""

import itertools
import random
from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, frame, frames_of
from tlt_common.domain.hidden import prompt_hash
from tlt_common.domain.ids import RequestId
from tlt_common.drafter.token_counts import TokenCounts
from tlt_trainer.data.feed import MARGIN, MIN_TOKENS, Feed, paced
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.data.frame_pool import Defect, FramePool, defect_of
from tlt_trainer.data.held_out import HELD_OUT_BELOW
from tlt_trainer.data.pack import collate, cut, plan, scored_count

MIB = 2**20


def renamed(made: TrainingFrame, name: str) -> TrainingFrame:
    return replace(made, header=replace(made.header, request_id=RequestId(name)))


lengths = st.lists(st.integers(1, 40), min_size=1, max_size=30)


@given(lengths, st.integers(8, 200), st.integers())
def test_a_plan_has_every_frame_once_and_keeps_to_the_size(sizes: list[int], limit: int, seed: int) -> None:
    frames = [frame(number, tokens) for number, tokens in enumerate(sizes)]
    groups = plan(frames, limit, random.Random(seed))
    assert sorted(f.header.request_id for group in groups for f in group) == sorted(f.header.request_id for f in frames)
    counts = [sum(f.header.token_count for f in group) for group in groups]
    assert all(len(group) == 1 or count <= limit for group, count in zip(groups, counts, strict=True))
    assert all(one + other > limit for one, other in itertools.combinations(counts, 2))  # none fits into another


@given(lengths, st.integers(0, 30), st.integers(0, 40))
def test_a_pack_holds_its_frames_and_scores_only_generated_tokens(sizes: list[int], start: int, prompt: int) -> None:
    frames = [frame(number, tokens, start=start, prompt=prompt) for number, tokens in enumerate(sizes)]
    pack = collate(frames, CPU)
    assert pack.tokens == sum(sizes)
    assert sorted(pack.layout.lengths) == sorted(sizes)
    assert len(pack.scored) == sum(scored_count(one.header) for one in frames)
    first, numbers = 0, []
    for n in pack.layout.lengths:
        rows = slice(first, first + n)
        number = int(pack.hidden[first, 0])
        numbers.append(number)
        assert torch.equal(pack.next_ids[rows], frames[number].token_ids[1:].long())
        assert bool((pack.hidden[rows] == number).all())
        assert pack.layout.offsets[rows].tolist() == list(range(n))
        assert pack.positions[rows].tolist() == list(range(start, start + n))
        scored = [t - first for t in pack.scored.tolist() if first <= t < first + n]
        assert scored == [t for t in range(n - 1) if start + t + 2 >= prompt]
        first += n
    assert sorted(numbers) == list(range(len(sizes)))


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(2, 30)), max_size=60), st.integers(1, 2000))
def test_what_is_held_out_is_never_drawn(found: list[tuple[int, int]], tokens: int) -> None:
    pool = FramePool(budget_bytes=MIB)
    frames = {(number, size): frame(number, size, policy=size) for number, size in found}
    assert pool.add(frames.values()) == len(frames)
    drawn, held_out = pool.draw(tokens), pool.held_out(tokens)
    assert not {f.header.prompt_hash for f in drawn} & {f.header.prompt_hash for f in held_out}
    assert len({(f.header.request_id, f.header.policy_version) for f in drawn}) == len(drawn)
    assert sum(f.header.token_count for f in drawn) >= min(tokens, pool.training_tokens)
    assert pool.add(frames.values()) == 0


def test_half_of_a_draw_is_of_the_newest_frames_and_the_rest_of_all_others() -> None:
    pool = FramePool(budget_bytes=64 * MIB)
    pool.add(frame(number, 100, policy=int(number >= 1800)) for number in range(2000))
    for _ in range(20):
        drawn = pool.draw(4000)
        assert 20 <= sum(f.header.policy_version for f in drawn) < 35  # of 40
    drawn = pool.draw(10**9)
    assert sum(f.header.token_count for f in drawn) == pool.training_tokens  # all, each once
    assert len({f.header.request_id for f in drawn}) == len(drawn)


def test_one_prompt_in_eight_is_held_out() -> None:
    pool = FramePool(budget_bytes=64 * MIB)
    pool.add(frame(number, 2) for number in range(4000))
    assert 0.1 < pool.held_out_tokens / (pool.held_out_tokens + pool.training_tokens) < 0.15


def test_a_prompt_stays_held_out_in_the_next_epoch_under_other_request_ids() -> None:
    pool = FramePool(budget_bytes=MIB)
    pool.add(frame(number, 2) for number in range(40))
    held_out = {f.header.prompt_hash for f in pool.held_out(10**6)}
    pool.add(renamed(frame(number, 2, policy=1), f"epoch2-{sample}-{number}/{sample}")
             for number in range(40) for sample in range(3))  # fmt: skip
    assert held_out == {f.header.prompt_hash for f in pool.held_out(10**6)}
    assert not held_out & {f.header.prompt_hash for f in pool.draw(10**6)}


@given(st.sets(st.integers(0, 10**6), min_size=2, max_size=12), st.randoms())
def test_two_prompts_are_enough_to_hold_one_out_and_train_on_the_other(numbers: set[int], rng: random.Random) -> None:
    arrived = sorted(numbers)
    rng.shuffle(arrived)
    pool = FramePool(budget_bytes=MIB)
    trained: set[int] = set()
    for count, number in enumerate(arrived, start=1):
        pool.add([frame(number, 2)])
        held_out, drawn = pool.held_out(10**6), pool.draw(10**6)
        assert len(held_out) + len(drawn) == count
        assert held_out
        trained |= {f.header.prompt_hash for f in drawn}
        assert not trained & {f.header.prompt_hash for f in held_out}  # never scored on after it was trained on
    hashes = {prompt_hash([number]) for number in numbers}
    expected = {one for one in hashes if one < HELD_OUT_BELOW} or {min(hashes)}
    assert {f.header.prompt_hash for f in held_out} == expected  # whatever the order of arrival


def test_a_full_pool_lets_the_oldest_policy_go() -> None:
    frames = [frame(number, 10, policy=number // 10) for number in range(200)]
    pool = FramePool(budget_bytes=20 * frames[0].header.payload_bytes)
    pool.add(frames)
    drawn = pool.draw(10**6)
    assert len(drawn) == 20
    assert min(f.header.policy_version for f in drawn) >= 17


def test_frames_of_another_model_or_of_a_prompt_alone_are_not_used(policy: TinyPolicy) -> None:
    good = frames_of(policy, 1)[0].header
    assert defect_of(good, policy.form) is None
    assert defect_of(good, replace(policy.form, hidden_size=64)) is Defect.OTHER_SIZE
    assert defect_of(good, replace(policy.form, layers=(1,))) is Defect.OTHER_LAYERS
    assert defect_of(replace(good, prompt_tokens=good.token_count + 2), policy.form) is Defect.NOTHING_GENERATED


@given(st.integers(1, 30), st.integers(1, 9), st.integers(1, 40))
def test_every_generated_token_is_counted_once(prompt: int, window: int, tokens: int) -> None:
    """Frames of a response share the token at which they meet."""
    counts, pool_counts = TokenCounts(48), TokenCounts(48)
    pool, whole = FramePool(budget_bytes=2**24, said=pool_counts), frame(3, prompt + tokens - 1, prompt=prompt)
    pool.add(cut(whole, window))
    pool.add(cut(whole, window))  # again
    counts.add(whole.token_ids[prompt:])
    assert pool_counts.total == counts.total == tokens
    assert pool_counts.coverage(torch.unique(whole.token_ids[prompt:]).long().numpy()) == 1.0


@given(st.integers(MIN_TOKENS, 4096), st.floats(0.001, 2.0), st.floats(1e-5, 1e-2))
def test_batches_reach_the_largest_size_that_keeps_to_the_duration(tokens: int, fixed_s: float, each_s: float) -> None:
    step_s, limit = fixed_s + 1000 * each_s, 4096
    for _ in range(1000):
        tokens = paced(tokens, fixed_s + tokens * each_s, step_s, limit)
    assert tokens <= 1000
    # A size stays when the next larger one would be above the margin.
    assert fixed_s + tokens * each_s >= MARGIN / (1 + 1 / tokens) * step_s or tokens == limit


def test_batches_have_a_least_and_a_largest_size() -> None:
    assert paced(MIN_TOKENS, 9.0, 0.5, 512) == MIN_TOKENS
    assert paced(512, 0.1, 0.5, 512) == 512
    assert paced(512, 0.49, 0.5, 512) == 512


def test_a_feed_begins_small_and_plans_anew_when_its_size_changes() -> None:
    pool = FramePool(budget_bytes=16 * MIB)
    pool.add([frame(number, 100) for number in range(200)])
    feed, sizes = Feed(pool, limit_tokens=512, step_s=1.0, seed="w"), list[int]()
    for _ in range(20):
        sizes.append(sum(one.header.token_count for one in feed.next() or ()))
        feed.pace(sizes[-1], sizes[-1] / 1000)
    assert sizes[0] <= MIN_TOKENS
    assert max(sizes) == 500
    feed.pace(500, 10.0)
    assert all(sum(one.header.token_count for one in feed.next() or ()) <= 256 for _ in range(5))


def test_a_small_group_does_not_tell_that_a_large_one_is_fast() -> None:
    feed = Feed(FramePool(budget_bytes=MIB), limit_tokens=512, step_s=1.0, seed="w")
    for _ in range(10):
        feed.pace(feed.tokens, 0.1)
    assert feed.tokens == 512
    feed.pace(512, 1.6)
    halved = feed.tokens
    feed.pace(10, 0.1)
    assert feed.tokens == halved == 288


@given(st.integers(1, 300), st.integers(4, 100), st.integers(0, 50))
def test_a_cut_frame_is_its_windows_one_after_the_other(tokens: int, most: int, prompt: int) -> None:
    whole = replace(frame(7, tokens, prompt=prompt), hidden=torch.arange(tokens * 32.0).view(tokens, 32))
    windows = cut(whole, most)
    assert torch.equal(torch.cat([one.hidden for one in windows]), whole.hidden)
    first = 0
    for one in windows:
        count = one.header.token_count
        assert count <= most
        assert one.header.start == first
        assert torch.equal(one.token_ids, whole.token_ids[first : first + count + 1])
        first += count
    assert sum(scored_count(one.header) for one in windows) >= scored_count(whole.header) - len(windows) + 1


def test_a_feed_ends_when_there_is_no_data_and_goes_on_when_there_is() -> None:
    pool = FramePool(budget_bytes=MIB)
    feed = Feed(pool, limit_tokens=64, step_s=0.5, seed="w")
    assert feed.next() is None
    pool.add([frame(number, 10) for number in range(40)])
    for _ in range(30):
        group = feed.next()
        assert group is not None
        assert len(group) * max(f.header.token_count for f in group) <= 64
    feed.pace(60, 1.0)
