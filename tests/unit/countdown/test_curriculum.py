from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countdown.curriculum import LENGTH_PENALTY, Curriculum, reward
from countdown.task import Problem

CURRICULUM = Curriculum(hold_steps=3, shift_steps=4)
PROBLEM = Problem(numbers=(2, 7), target=5)
CORRECT = "Answer : 7 - 2 = 5"


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_a_step_asks_the_same_problems_whenever_it_is_asked(step: int, seed: int) -> None:
    problems = CURRICULUM.problems(step, count=4, seed=seed)
    assert len(problems) == 4
    assert problems == CURRICULUM.problems(step, count=4, seed=seed)
    assert problems[:2] == CURRICULUM.problems(step, count=2, seed=seed)


def test_steps_and_seeds_ask_different_problems() -> None:
    asked = [CURRICULUM.problems(step, count=8, seed=seed) for step in (0, 1) for seed in (0, 1)]
    assert all(first != second for place, first in enumerate(asked) for second in asked[:place])


def test_small_problems_give_way_to_larger_ones() -> None:
    assert [CURRICULUM.progress(step) for step in range(9)] == [0, 0, 0, 0.25, 0.5, 0.75, 1, 1, 1]
    assert CURRICULUM.mix(0) == CURRICULUM.first
    assert CURRICULUM.mix(8) == CURRICULUM.last
    assert {len(problem.numbers) for problem in CURRICULUM.problems(0, count=50, seed=0)} == {2}
    assert {len(problem.numbers) for problem in CURRICULUM.problems(8, count=50, seed=0)} == {3, 4}


@given(st.integers(0, 100))
def test_a_mix_stays_a_distribution(step: int) -> None:
    assert sum(CURRICULUM.mix(step).weights) == pytest.approx(1.0)


def test_a_shift_may_be_sudden() -> None:
    sudden = replace(CURRICULUM, shift_steps=0)
    assert [sudden.progress(step) for step in (2, 3)] == [0, 1]


@given(st.integers(0, 1024), st.integers(0, 1024))
def test_of_two_correct_answers_the_shorter_is_worth_more(first: int, second: int) -> None:
    short, long = sorted((first, second))
    rewards = [reward(PROBLEM, CORRECT, length_tokens=length, cap_tokens=1024) for length in (short, long)]
    assert rewards[0] >= rewards[1] >= 1 - LENGTH_PENALTY


def test_a_wrong_answer_costs_its_length() -> None:
    assert reward(PROBLEM, "Answer : 7 + 2 = 9", length_tokens=512, cap_tokens=1024) == -LENGTH_PENALTY / 2


@pytest.mark.parametrize("length", [-1, 1025])
def test_an_impossible_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="under a cap of 1024"):
        reward(PROBLEM, CORRECT, length_tokens=length, cap_tokens=1024)
