"""Problems of steps and fresh ones never meet, and responses are graded by their text."""

from dataclasses import replace

import pytest

from tlt_common.domain.batch import Sample
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_suite import FinishReason, TokenChunk
from word_problems.prompts import MAX_STEPS, WordProblems, conversation
from word_problems.settings import RealSettings

SETTINGS = RealSettings(max_steps=3, prompts=4, fresh_prompts=5)


class Spelling:
    """A tokenizer whose tokens are characters."""

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return "".join(map(chr, ids))


@pytest.fixture(name="task")
def word_problems() -> WordProblems:
    return WordProblems(settings=SETTINGS, tokenizer=Spelling())


def sample(text: str, reason: FinishReason = FinishReason.STOP, *, prompt: int = 1) -> Sample:
    ids = tuple(map(ord, text))
    response = TokenChunk(
        request_id=RequestId("r"),
        token_ids=ids,
        logprobs=(-1.0,) * len(ids),
        policy_versions=(PolicyVersion(1),) * len(ids),
        finish_reason=reason,
    )
    return Sample(
        prompt_index=prompt, sample_index=0, response=response, finished_count=1, total_count=1, elapsed_s=0.0
    )


def test_steps_have_problems_of_their_own(task: WordProblems) -> None:
    steps = [{problem.text for problem in task.problems(step)} for step in range(3)]
    assert all(len(texts) == 4 for texts in steps)
    assert not steps[0] & steps[1] | steps[1] & steps[2]
    assert RealSettings().max_steps <= MAX_STEPS


def test_fresh_problems_are_in_no_step(task: WordProblems) -> None:
    fresh = task.fresh_problems()
    assert len(fresh) == 5
    seen = {problem.text for step in range(3) for problem in task.problems(step)}
    assert not {problem.text for problem in fresh} & seen


def test_a_seed_has_problems_of_its_own(task: WordProblems) -> None:
    other = replace(task, settings=replace(SETTINGS, seed=1))
    assert other.problems(0) != task.problems(0)
    assert other.fresh_problems() != task.fresh_problems()


def test_a_response_is_graded_by_its_prompt_and_by_how_it_ended(task: WordProblems) -> None:
    grade = task.grader(2)
    right = f"Answer: {task.problems(2)[1].answer}"
    found = [grade(one) for one in (sample(right), sample(right, FinishReason.LENGTH), sample("Answer: 1000000"))]
    assert [(each.reward, each.correct) for each in found] == [(1.0, True), (0.0, False), (0.1, False)]
    assert not task.mix(2)


def test_a_prompt_is_what_a_user_says(task: WordProblems) -> None:
    problem = task.problems(0)[0]
    assert conversation(problem) == [{"role": "user", "content": problem.prompt}]
