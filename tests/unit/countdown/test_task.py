import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countdown.task import (
    ANSWER_MARK,
    LARGEST_NUMBER,
    LARGEST_RESULT,
    Mix,
    Problem,
    Step,
    draw_problem,
    draw_problems,
    guess,
    legal_steps,
    verify,
)

SEEDS = st.integers(0, 2**32)
TWO_FIVE = Problem(numbers=(2, 7), target=5)


def solution(seed: int) -> tuple[Problem, list[str]]:
    """A problem and the calculations of a guess that solves it, whatever its own target was."""
    rng = random.Random(seed)
    drawn = draw_problem(rng)
    steps = guess(drawn, rng, insight=0)
    return Problem(numbers=drawn.numbers, target=steps[-1].result), [str(step) for step in steps]


def answer(calculations: list[str]) -> str:
    return f"{ANSWER_MARK} {' ; '.join(calculations)}"


@given(SEEDS)
def test_a_problem_is_small_and_sorted(seed: int) -> None:
    problem = draw_problem(random.Random(seed))
    assert 2 <= len(problem.numbers) <= 4
    assert all(1 <= number <= LARGEST_NUMBER for number in problem.numbers)
    assert all(low <= high for low, high in pairwise(problem.numbers))
    assert 1 <= problem.target <= LARGEST_RESULT


@given(st.integers(0, LARGEST_RESULT), st.integers(0, LARGEST_RESULT))
def test_legal_steps_are_true_and_bounded(first: int, second: int) -> None:
    steps = legal_steps(first, second)
    assert steps
    assert all(step.is_true and 0 <= step.result <= LARGEST_RESULT for step in steps)


@given(SEEDS)
def test_a_correct_derivation_verifies(seed: int) -> None:
    problem, calculations = solution(seed)
    assert verify(problem, answer(calculations))
    assert verify(problem, f"Start over with 1 = 2 . {ANSWER_MARK} 1 + 1 = 3 . {answer(calculations)} <eos>")


@given(SEEDS, st.data())
def test_a_false_result_is_rejected(seed: int, data: st.DataObject) -> None:
    problem, calculations = solution(seed)
    place = data.draw(st.integers(0, len(calculations) - 1))
    formula, _, result = calculations[place].rpartition(" ")
    calculations[place] = f"{formula} {int(result) + data.draw(st.integers(1, 9))}"
    assert not verify(problem, answer(calculations))


@given(SEEDS, st.integers(1, 5))
def test_another_target_is_rejected(seed: int, offset: int) -> None:
    problem, calculations = solution(seed)
    assert not verify(Problem(numbers=problem.numbers, target=problem.target + offset), answer(calculations))


@given(SEEDS, st.integers(1, LARGEST_NUMBER))
def test_a_number_left_over_is_rejected(seed: int, extra: int) -> None:
    problem, calculations = solution(seed)
    numbers = tuple(sorted([*problem.numbers, extra]))
    assert not verify(Problem(numbers=numbers, target=problem.target), answer(calculations))


@given(SEEDS, st.data())
def test_an_answer_that_was_cut_is_rejected(seed: int, data: st.DataObject) -> None:
    problem, calculations = solution(seed)
    words = answer(calculations).split()
    assert not verify(problem, " ".join(words[: data.draw(st.integers(0, len(words) - 1))]))


@given(st.text(alphabet="0123456789+-*=;:. Answer", max_size=60))
def test_any_text_gets_a_verdict(text: str) -> None:
    assert not verify(TWO_FIVE, text.replace(ANSWER_MARK, ""))
    verify(TWO_FIVE, ANSWER_MARK + text)


@pytest.mark.parametrize(
    "calculation", ["7 - 2 = 5 ; 5 = 5", "7 / 2 = 5", "7 - 2 = five", "2 + 3 = 5", "5 = 7 - 2", "7 - 2 == 5", ""]
)
def test_a_malformed_answer_is_rejected(calculation: str) -> None:
    assert not verify(TWO_FIVE, answer([calculation]))


def test_a_number_counts_once() -> None:
    assert not verify(Problem(numbers=(2, 3), target=4), answer(["2 + 2 = 4"]))
    assert verify(Problem(numbers=(2, 2), target=4), answer(["2 + 2 = 4"]))


def test_applying_a_step_replaces_its_operands() -> None:
    assert Step(left=7, symbol="-", right=2, result=5).apply((2, 7, 9)) == (5, 9)


def test_the_same_seed_draws_the_same_problems() -> None:
    assert draw_problems(20, seed=1) == draw_problems(20, seed=1)
    assert draw_problems(20, seed=1) != draw_problems(20, seed=2)


def test_the_mix_decides_the_number_counts() -> None:
    problems = draw_problems(400, seed=0, mix=Mix(two=0.0, three=1.0, four=1.0))
    shares = {count: sum(len(problem.numbers) == count for problem in problems) / 400 for count in (2, 3, 4)}
    assert shares[2] == 0
    assert shares[3] == pytest.approx(0.5, abs=0.1)


def test_a_prompt_states_the_problem() -> None:
    assert TWO_FIVE.prompt == "Numbers 2 7 . Target 5 ."
