"""From frames to batches: nothing is lost, mixed, or trained on that is kept for scoring."""

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, frames_of
from tlt_common.domain.hidden import HiddenFrame
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_trainer.batch import collate, plan, scored_count
from tlt_trainer.feed import LEAST_TOKENS, Feed, paced
from tlt_trainer.pool import FramePool, is_held_out, is_usable

MIB = 2**20


def frame(number: int, tokens: int, *, start: int = 0, prompt: int = 0, policy: int = 0) -> HiddenFrame:
    return HiddenFrame(
        request_id=RequestId(f"r{number}"),
        policy_version=PolicyVersion(policy),
        start=start,
        token_ids=tuple((number + n) % 48 for n in range(tokens + 1)),
        hidden_size=32,
        dtype="F32",
        hidden=torch.full((tokens * 32,), float(number)).numpy().tobytes(),
        prompt_tokens=prompt,
        response_tokens=tokens,
        finished=True,
    )


lengths = st.lists(st.integers(1, 40), min_size=1, max_size=30)


@given(lengths, st.integers(8, 200), st.integers())
def test_a_plan_has_every_frame_once_and_keeps_to_the_size(sizes: list[int], limit: int, seed: int) -> None:
    frames = [frame(number, tokens) for number, tokens in enumerate(sizes)]
    groups = plan(frames, limit, random.Random(seed))
    assert sorted(f.request_id for group in groups for f in group) == sorted(f.request_id for f in frames)
    for group in groups:
        assert len(group) == 1 or len(group) * max(f.token_count for f in group) <= limit


@given(lengths, st.integers(0, 30), st.integers(0, 40))
def test_a_batch_holds_its_frames_and_scores_only_generated_tokens(sizes: list[int], start: int, prompt: int) -> None:
    frames = [frame(number, tokens, start=start, prompt=prompt) for number, tokens in enumerate(sizes)]
    batch = collate(frames, CPU)
    assert batch.tokens == sum(sizes)
    for row, one in enumerate(frames):
        n = one.token_count
        assert tuple(batch.token_ids[row, : n + 1].tolist()) == one.token_ids
        assert bool((batch.hidden[row, :n] == row).all())
        assert batch.positions[row, :n].tolist() == list(range(start, start + n))
        scored = batch.weights[row].nonzero().flatten().tolist()
        assert scored == [t for t in range(n - 1) if start + t + 2 >= prompt]
        assert len(scored) == scored_count(one)


@pytest.mark.parametrize(("dtype", "torch_dtype"), [("BF16", torch.bfloat16), ("F16", torch.float16)])
def test_states_of_every_element_type_are_read(dtype: str, torch_dtype: torch.dtype) -> None:
    states = torch.arange(64, dtype=torch_dtype)
    one = replace(frame(0, 2), dtype=dtype, hidden=states.view(torch.uint8).numpy().tobytes())
    assert torch.equal(collate([one], CPU).hidden.flatten().to(torch_dtype), states)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(2, 30)), max_size=60), st.integers(1, 2000))
def test_what_is_held_out_is_never_drawn(found: list[tuple[int, int]], tokens: int) -> None:
    pool = FramePool(budget_bytes=MIB)
    frames = {(number, size): frame(number, size, policy=size) for number, size in found}
    assert pool.add(frames.values()) == len(frames)
    drawn, held_out = pool.draw(tokens), pool.held_out(tokens)
    assert not any(is_held_out(f) for f in drawn)
    assert all(is_held_out(f) for f in held_out)
    assert len({(f.request_id, f.policy_version) for f in drawn}) == len(drawn)
    assert sum(f.token_count for f in drawn) >= min(tokens, pool.training_tokens)
    assert pool.add(frames.values()) == 0


def test_one_prompt_in_eight_is_held_out_with_all_its_samples() -> None:
    share = sum(is_held_out(frame(number, 2)) for number in range(4000)) / 4000
    assert 0.1 < share < 0.15
    for number in range(100):
        samples = [replace(frame(number, 2), request_id=RequestId(f"p{number}/{sample}")) for sample in range(8)]
        assert len({is_held_out(sample) for sample in samples}) == 1


def test_a_full_pool_lets_the_oldest_policy_go() -> None:
    frames = [frame(number, 10, policy=number // 10) for number in range(200)]
    pool = FramePool(budget_bytes=20 * frames[0].size_bytes)
    pool.add(frames)
    drawn = pool.draw(10**6)
    assert len(drawn) == 20
    assert min(f.policy_version for f in drawn) >= 17


def test_frames_of_another_model_or_of_a_prompt_alone_are_not_used(policy: TinyPolicy) -> None:
    (good,) = frames_of(policy, 1)
    assert is_usable(good, policy.shape)
    assert not is_usable(good, replace(policy.shape, hidden_size=64))
    assert not is_usable(good, replace(policy.shape, vocab_size=3))
    assert not is_usable(replace(good, prompt_tokens=good.token_count + 2), policy.shape)


def test_batches_shrink_until_a_step_is_short_enough_and_grow_again() -> None:
    assert paced(512, 0.9, 0.5, 512) == 256
    assert paced(LEAST_TOKENS, 9.0, 0.5, 512) == LEAST_TOKENS
    assert paced(256, 0.3, 0.5, 512) == 256
    assert paced(256, 0.1, 0.5, 512) == 384
    assert paced(512, 0.1, 0.5, 512) == 512


def test_a_feed_ends_when_there_is_no_data_and_goes_on_when_there_is() -> None:
    pool = FramePool(budget_bytes=MIB)
    feed = Feed(pool, limit_tokens=64, step_s=0.5, seed="w")
    assert feed.next() is None
    pool.add([frame(number, 10) for number in range(40)])
    for _ in range(30):
        group = feed.next()
        assert group is not None
        assert len(group) * max(f.token_count for f in group) <= 64
    feed.pace(1.0)
