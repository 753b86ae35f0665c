"""Tasks for a benchmark's model: the demo's problems, or word problems in a language model's chat template."""

from functools import cached_property
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer

from tlt_bench import workload
from tlt_bench.workload import Prompts
from tlt_common.text.special_tokens import SpecialTokens
from tlt_gateway.http.text.rendering import render
from tlt_gateway.http.text.template import DEFAULT, sources_of
from tlt_gateway.http.text.tokenizer import load_tokenizer
from word_problems.task import draw_problems

FIRST_SEED = 10_000_000
"""The shipped drafter was trained on problems with seeds below a million."""


class Task(Protocol):
    """A task for a policy."""

    prompt_tokens: int
    """Maximum tokens of a prompt."""
    response_tokens: int
    """
    Maximum measured tokens of a response. Benchmarks continue responses beyond their end, so that lengths are as
    planned; drafters do not know what a language model writes there.
    """

    def hard(self, count: int, *, seed: int) -> Prompts:
        """Return the token ids of problems with long responses."""
        ...

    def mixed(self, count: int, *, seed: int) -> Prompts:
        """Return the token ids of problems as in training."""
        ...


class Countdown:
    """The demo's task, for its policy and for untrained weights."""

    prompt_tokens = workload.PROMPT_TOKENS
    response_tokens = workload.LONGEST_TOKENS

    def hard(self, count: int, *, seed: int) -> Prompts:
        """Return problems with four numbers."""
        return workload.hard_prompts(count, seed=seed)

    def mixed(self, count: int, *, seed: int) -> Prompts:
        """Return problems with the training mix."""
        return workload.mixed_prompts(count, seed=seed)


class WordProblems:
    """
    Word problems in the chat template of a language model. Most responses are long.

    Args:
        model: The model's directory, with its tokenizer and its template.
    """

    prompt_tokens = 128
    response_tokens = 128
    """Most responses of SmolLM2 are longer."""

    def __init__(self, model: Path) -> None:
        self._model = model

    def hard(self, count: int, *, seed: int) -> Prompts:
        """Return word problems."""
        return tuple(self.prompt(problem.prompt) for problem in draw_problems(count, seed=FIRST_SEED + seed))

    def mixed(self, count: int, *, seed: int) -> Prompts:
        """Return word problems, of which there is only one kind."""
        return self.hard(count, seed=seed)

    def prompt(self, *turns: str) -> tuple[int, ...]:
        """Return the token ids of a conversation that starts and ends with the user, up to the response."""
        roles = ("user", "assistant")
        messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(turns)]
        text = render(self._template, messages, None, continues=False, add_generation_prompt=True, **self._special)
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    @cached_property
    def _template(self) -> str:
        return sources_of(self._model)[DEFAULT]

    @cached_property
    def _special(self) -> dict[str, str]:
        return dict(SpecialTokens.of(self._model).named)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return load_tokenizer(self._model)


def task_of(model: Path) -> Task:
    """Return the task for a model: word problems if it has a chat template, otherwise the demo's problems."""
    return WordProblems(model) if DEFAULT in sources_of(model) else Countdown()
