"""The rollout after training: fresh prompts, from the last policy, whose states nobody captures."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from countdown.coordinator import lend
from countdown.events import Stage, emit
from countdown.recorder import StepRecorder
from tlt_common.recorded_rollouts import PROMPT, RESPONSE
from tlt_suite import BlockingClient, SamplingParams, TokenChunk
from tlt_suite.trl import TltRollouts
from word_problems.prompts import WordProblems, conversation
from word_problems.settings import POLICY, RESPONSES


class Answers:
    """Rolls out the steps as the recorder does; once training has ended, without capturing states."""

    def __init__(self, recorder: StepRecorder) -> None:
        self._recorder = recorder
        self.is_training = True

    def __call__(
        self,
        client: BlockingClient,
        prompts: Sequence[Sequence[int]],
        samples: int,
        sampling: SamplingParams,
        /,
        *,
        policy_version: int,
    ) -> Sequence[Sequence[TokenChunk]]:
        """Return responses by prompt and sample."""
        if self.is_training:
            return self._recorder.roll_out(client, prompts, samples, sampling, policy_version=policy_version)
        return client.batch(prompts, samples, sampling, capture=False, policy_version=policy_version)


def roll_out_fresh(
    rollouts: TltRollouts, trainer: Any, task: WordProblems, answers: Answers, coordinator: str, directory: Path
) -> None:
    """
    Publish the trained policy, and write it and its responses to fresh prompts to `directory`. Ends lending.

    Args:
        rollouts: The trainer's; publishes its weights.
        trainer: TRL's, after training.
        task: Has the prompts.
        answers: What `rollouts` calls.
        coordinator: host:port.
        directory: Directory of the run.
    """
    emit(Stage(text="rolling out fresh prompts, which no drafter learns from"))
    answers.is_training = False
    asyncio.run(lend(coordinator, enabled=False))
    prompts: list[list[int]] = task.tokenizer.apply_chat_template(
        [conversation(problem) for problem in task.fresh_problems()], add_generation_prompt=True, return_dict=True
    )["input_ids"]
    responses = rollouts.roll_out(prompts, trainer, 1)
    lines = [
        json.dumps({PROMPT: prompt, RESPONSE: list(response.token_ids)})
        for prompt, response in zip(prompts, responses, strict=True)
    ]
    (directory / RESPONSES).write_text("\n".join(lines) + "\n")
    trainer.model.save_pretrained(directory / POLICY)
