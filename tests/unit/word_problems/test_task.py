"""Problems have the answer that their text asks for, and responses are graded by what they say last."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from word_problems.task import INSTRUCTION, Problem, answer_of, draw_problem, draw_problems, reward, verify

PROBLEM = Problem(text="Anna has 2 eggs. Ben gives Anna 3 more. How many eggs does Anna have now?", answer=5)


@given(st.integers(0, 2**32))
def test_problems_ask_for_a_whole_number_that_is_not_negative(seed: int) -> None:
    problem = draw_problem(random.Random(seed))
    assert problem.answer >= 0
    assert problem.text.rstrip().endswith("?")
    assert problem.prompt == f"{INSTRUCTION}\n\n{problem.text}"


def test_problems_are_determined_by_their_seed_and_differ() -> None:
    assert draw_problems(50, seed=1) == draw_problems(50, seed=1)
    assert draw_problems(50, seed=1) != draw_problems(50, seed=2)
    assert len({problem.text for problem in draw_problems(200, seed=1)}) > 190


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("2 + 3 = 5.\nAnswer: 5", 5.0),
        ("Answer: 4. No, I was wrong.\nanswer: **5**.", 5.0),
        ("ANSWER - 1,234 eggs", 1234.0),
        ("Answer: -2.5", -2.5),
        ("The eggs are 5.", None),
        ("Answer:", None),
        ("5 is the answer", None),
    ],
)
def test_the_answer_is_the_first_number_after_the_last_mark(response: str, answer: float | None) -> None:
    assert answer_of(response) == answer


@given(st.integers(0, 10**6), st.text(alphabet="abc .\n", max_size=40))
def test_any_text_may_precede_the_answer(number: int, thought: str) -> None:
    assert answer_of(f"{thought}\nAnswer: {number}") == number


@given(st.text(max_size=80), st.booleans())
def test_a_reward_is_one_of_three_values(response: str, finished: bool) -> None:
    worth = reward(PROBLEM, response, finished=finished)
    assert worth in {0.0, 0.1, 1.0}
    assert (worth == 1.0) <= verify(PROBLEM, response)
    assert finished or worth == 0.0


def test_the_right_answer_is_worth_most_and_a_wrong_one_more_than_none() -> None:
    worths = [reward(PROBLEM, text, finished=True) for text in ("Answer: 5", "Answer: 6", "Five.")]
    assert worths == [1.0, 0.1, 0.0]
    assert reward(PROBLEM, "Answer: 5", finished=False) == 0.0
