"""
The external trainer: TRL's GRPO of SmolLM2 on word problems, with rollouts from the suite.

A separate program: `python -m word_problems.trainer ENDPOINT COORDINATOR DIRECTORY ENDS_UNIX_S SETTINGS`. Two cores
would take half an hour for a step of the whole policy, so its upper layers are trained and the others are frozen. What
is published after each step is the whole checkpoint.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import AutoTokenizer

from countdown.grpo import TrimmingTrainer, arguments
from countdown.recorder import StepRecorder
from tlt_local.models.published import SMOLLM2
from tlt_suite.trl import TltRollouts
from word_problems.fresh_rollout import Answers, roll_out_fresh
from word_problems.policy import served_state, trainable
from word_problems.prompts import WordProblems, conversation
from word_problems.settings import RealSettings
from word_problems.task import Problem, reward


def rewards(
    *, completions: list[list[dict[str, str]]], problem: list[str], finish_reason: list[str], **_: Any
) -> list[float | None]:
    """Reward function for TRL."""
    return [
        reward(Problem(**json.loads(one)), messages[0]["content"], finished=reason == "stop")
        for one, messages, reason in zip(problem, completions, finish_reason, strict=True)
    ]


def dataset(task: WordProblems) -> Dataset:
    """Return all prompts in the order of the steps."""
    rows = [
        {"prompt": conversation(problem), "problem": json.dumps(asdict(problem))}
        for step in range(task.settings.max_steps)
        for problem in task.problems(step)
    ]
    return Dataset.from_list(rows)


def main() -> None:
    """Train until the time limit or the last step, and roll out the fresh prompts."""
    endpoint, coordinator, run_directory, ends_unix_s, settings_json = sys.argv[1:]
    directory = Path(run_directory)
    settings = RealSettings(**json.loads(settings_json))
    tokenizer = AutoTokenizer.from_pretrained(SMOLLM2.directory)
    task = WordProblems(settings=settings, tokenizer=tokenizer)
    recorder = StepRecorder(settings, task, coordinator, ends_unix_s=float(ends_unix_s))
    answers = Answers(recorder)
    seed = settings.seed if settings.paired else None
    rollouts = TltRollouts(endpoint, export=served_state, answer=answers, seed=seed)
    trainer = TrimmingTrainer(
        model=trainable(SMOLLM2.directory, layers=settings.trained_layers),
        processing_class=tokenizer,
        args=arguments(settings, str(directory / "trainer")),
        train_dataset=dataset(task),
        reward_funcs=rewards,
        rollout_func=rollouts,
        callbacks=[recorder],
    )
    trainer.train()
    roll_out_fresh(rollouts, trainer, task, answers, coordinator, directory)
    rollouts.close()


if __name__ == "__main__":
    main()
