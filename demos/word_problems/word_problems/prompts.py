"""Which problems a run has, and how its responses are graded."""

from dataclasses import dataclass
from typing import Any

from countdown.compare import Grade, Grader
from tlt_suite import FinishReason, Sample
from word_problems.settings import RealSettings
from word_problems.task import Problem, draw_problems, reward, verify

FIRST_SEED = 1_000_000
"""The shipped drafter was trained on problems with seeds below."""
MAX_STEPS = 1000
"""Steps have a seed each, and fresh prompts the one behind them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WordProblems:
    """The task of a run: word problems, new ones in every step."""

    settings: RealSettings
    tokenizer: Any

    def problems(self, step: int) -> list[Problem]:
        """Return the problems of a step."""
        return draw_problems(self.settings.prompts, seed=self._seed(step))

    def fresh_problems(self) -> list[Problem]:
        """Return problems that no step has."""
        steps = range(self.settings.max_steps)
        known = {problem.text for step in steps for problem in self.problems(step)}
        drawn = draw_problems(2 * self.settings.fresh_prompts, seed=self._seed(MAX_STEPS))
        return [problem for problem in drawn if problem.text not in known][: self.settings.fresh_prompts]

    def grader(self, step: int) -> Grader:
        """Return what grades the responses of a step."""
        problems = self.problems(step)

        def grade(sample: Sample) -> Grade:
            problem = problems[sample.prompt_index]
            text = self.tokenizer.decode(list(sample.response.token_ids), skip_special_tokens=True)
            finished = sample.response.finish_reason is FinishReason.STOP
            return Grade(reward=reward(problem, text, finished=finished), correct=finished and verify(problem, text))

        return grade

    def mix(self, step: int) -> dict[int, float]:
        """Return no shares: all steps have problems of the same forms."""
        del step
        return {}

    def _seed(self, step: int) -> int:
        return FIRST_SEED + self.settings.seed * (MAX_STEPS + 1) + step


def conversation(problem: Problem) -> list[dict[str, str]]:
    """Return a problem as the policy's chat template takes it."""
    return [{"role": "user", "content": problem.prompt}]
