"""The rows of the policy's head that a drafter is trained with."""

import random
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, frames_of
from tlt_common.drafter.token_counts import TokenCounts
from tlt_trainer.data.pack import collate, plan
from tlt_trainer.drafter import head_rows
from tlt_trainer.drafter.head_rows import COVERED, HeadRows
from tlt_trainer.learner import Learner


def counted(vocab_size: int, token_ids: list[int]) -> TokenCounts:
    counts = TokenCounts(vocab_size)
    counts.add(token_ids)
    return counts


@given(st.lists(st.integers(0, 199), min_size=1, max_size=400), st.integers(1, 64))
def test_chosen_tokens_cover_the_share_with_a_power_of_two(token_ids: list[int], least: int) -> None:
    counts = counted(200, token_ids)
    tokens_R = counts.covering(COVERED, least=least)
    assert counts.coverage(tokens_R) >= COVERED
    assert list(tokens_R) == sorted(set(tokens_R))
    assert len(tokens_R) >= min(least, 200)
    assert len(tokens_R) in {least, 200} or len(tokens_R).bit_count() == 1


def test_rows_are_those_of_the_tokens_and_follow_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_rows, "LEAST", 4)
    rows, first, second = HeadRows(64), torch.randn(64, 8), torch.randn(64, 8)
    assert rows.of(first) is first, "nothing is chosen yet"
    rows.choose(counted(64, [5, 9, 9, 40, 63]))
    assert torch.equal(rows.of(first), first[[5, 9, 40, 63]])
    assert rows.of(first) is rows.of(first), "copied once"
    assert torch.equal(rows.of(second), second[[5, 9, 40, 63]])
    rows.choose(counted(64, [5, 9, 40, 63] * 9))
    assert len(rows.of(first)) == 4
    rows.choose(counted(64, list(range(20))))
    assert torch.equal(rows.of(first)[:20], first[:20])
    assert len(rows.of(first)) == 32


def test_a_released_head_is_freed(policy: TinyPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_rows, "LEAST", 4)
    learner = Learner(policy.form, CPU)
    assert learner.rows is not None
    learner.rows.choose(counted(policy.form.vocab_size, [1, 2]))
    head_VH = torch.randn(policy.form.vocab_size, policy.form.hidden_size)
    known = weakref.ref(head_VH)
    learner.rows.of(head_VH)
    learner.share(None)
    del head_VH
    assert known() is None


def test_a_small_head_is_whole() -> None:
    rows, head_VH = HeadRows(48), torch.randn(48, 8)
    rows.choose(counted(48, [1]))
    assert rows.of(head_VH) is head_VH


def test_a_drafter_learns_with_rows_what_it_learns_with_the_head(
    policy: TinyPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_rows, "LEAST", 4)
    frames = frames_of(policy, 24, seed=1, tokens=32)
    packs = [collate(group, CPU) for group in plan(frames, 256, random.Random(0))]
    lengths = []
    for chooses in (False, True):
        learner = Learner(policy.form, CPU)
        learner.share(policy.shared)
        assert learner.rows is not None
        if chooses:
            counts = TokenCounts(policy.form.vocab_size)
            for frame in frames:
                counts.add(frame.token_ids)
            learner.rows.choose(counts)
        for _ in range(12):
            for pack in packs:
                learner.micro_step(pack)
        tally = learner.tally(packs[0])
        lengths.append(tally.accepted[0] / tally.counts[0])
    assert lengths[1] > 0.9 * lengths[0]
