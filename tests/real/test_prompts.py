"""Prompts of benchmarks and tests are what transformers makes of the same conversation."""

from typing import Any

import pytest
from transformers import AutoTokenizer

from tests.real.model import MODEL, task
from tlt_bench.tasks import FIRST_SEED, Countdown, WordProblems, task_of
from word_problems.task import draw_problems

SAID = ("How many are 2 and 3?", "They are 5.", "And 4 more?")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(MODEL.directory)


def rendered(tokenizer: Any, *turns: str) -> tuple[int, ...]:
    messages = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(turns)]
    return tuple(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))


def test_prompts_are_rendered_as_by_transformers(tokenizer: Any) -> None:
    problems = draw_problems(40, seed=FIRST_SEED + 3)
    prompts = task().hard(40, seed=3)
    assert prompts == tuple(rendered(tokenizer, problem.prompt) for problem in problems)
    assert max(map(len, prompts)) <= WordProblems.prompt_tokens
    assert task().prompt(*SAID) == rendered(tokenizer, *SAID)


def test_a_model_with_a_chat_template_is_asked_word_problems(tmp_path: Any) -> None:
    assert isinstance(task_of(MODEL.directory), WordProblems)
    assert isinstance(task_of(tmp_path), Countdown)
