"""EAGLE-3 drafters: as exact as others, drafting what plain torch says they draft."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.lossless import goodness

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

LEVEL = 1e-4

Play = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def told(play: Play) -> dict[str, Any]:
    return play("scenes_eagle3.qwen3")


@pytest.fixture(scope="module")
def ranks(play: Play) -> dict[str, Any]:
    return play("scenes_eagle3.ranks")


def tokens(answers: list[Any]) -> list[tuple[int, ...]]:
    return [answer.token_ids for answer in answers]


@pytest.mark.parametrize("case", ["chain", "in turn", "fewer tokens"])
def test_greedy_answers_are_the_targets_and_drafts_the_drafters(told: dict[str, Any], case: str) -> None:
    assert [list(ids) for ids in tokens(told[case]["answers"])] == told[case]["expected"]
    for rounds, expected in zip(told[case]["rounds"], told[case]["expected_rounds"], strict=True):
        assert rounds in expected


def test_drafts_pay(told: dict[str, Any]) -> None:
    kept = sum(len(answer.token_ids) for answer in told["chain"]["answers"])
    assert kept / sum(told["chain"]["rounds"]) > 1.5


def test_a_drafter_that_arrives_in_mid_response_catches_up(told: dict[str, Any]) -> None:
    assert told["early"].token_ids == told["early_off"].token_ids
    assert told["early"].stats.accepted_draft_tokens > 50


def test_greedy_answers_survive_arms_and_swaps_in_flight(told: dict[str, Any]) -> None:
    assert tokens(told["storm"]) == tokens(told["off"])
    assert sum(answer.stats.accepted_draft_tokens for answer in told["storm"]) > 50


@pytest.mark.parametrize("arm", ["chain", "tree"])
def test_drafts_of_a_part_of_the_tokens_are_lossless(told: dict[str, Any], arm: str) -> None:
    case = told[f"sampled {arm}"]
    assert case["accepted"] > 0.5
    counts = goodness.count(np.array(case["tokens"])[:, 1:], 24)
    assert goodness.fit(counts, case["exact"]).p_value > LEVEL


def test_drafters_that_are_none_for_this_engine_are_refused(told: dict[str, Any]) -> None:
    kind, finite, twice, cut, nowhere = told["refusals"]
    assert "kind is 'eagle'; the engine was launched for 'eagle3'" in kind
    assert "not finite" in finite
    assert "both to token" in twice
    assert "header announces" in cut
    assert "config.json is not readable" in nowhere


def test_frames_hold_what_the_drafter_reads(told: dict[str, Any]) -> None:
    covered = set()
    for frame in told["frames"]:
        expected = told["states"][frame.start : frame.start + frame.token_count]
        states = torch.frombuffer(bytearray(frame.hidden), dtype=torch.float32).view(expected.shape)
        assert frame.hidden_size == expected.shape[1]
        assert (states - expected).abs().max() < 1e-3
        covered |= set(range(frame.start, frame.start + frame.token_count))
    assert covered == set(range(len(told["states"]) - 1))


def test_new_weights_of_the_target_are_followed(told: dict[str, Any]) -> None:
    assert list(told["updated"].token_ids) == told["updated_expected"]


def test_two_ranks_draft_as_one(ranks: dict[str, Any]) -> None:
    assert [list(ids) for ids in tokens(ranks["in turn"]["answers"])] == ranks["in turn"]["expected"]
    for rounds, expected in zip(ranks["in turn"]["rounds"], ranks["in turn"]["expected_rounds"], strict=True):
        assert rounds in expected
    assert len(ranks["sampled"].token_ids) == 60
