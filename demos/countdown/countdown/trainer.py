"""
The demo's external trainer: TRL's GRPO on Countdown, with rollouts from the suite.

A separate program: `python -m countdown.trainer ENDPOINT COORDINATOR DIRECTORY ENDS_UNIX_S SETTINGS`. For training it
uses only the client and the TRL integration of the suite; it trains the small policy and publishes its deepened
version. For the measurement it calls the coordinator to enable and disable lending and to read worker-seconds by state.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoTokenizer, LlamaForCausalLM

from countdown.compare import Grade, Grader
from countdown.curriculum import Curriculum, reward
from countdown.grpo import TrimmingTrainer, arguments
from countdown.model import CHECKPOINT, deepen_state
from countdown.recorder import StepRecorder
from countdown.settings import LAYERS, DemoSettings
from countdown.task import Problem, verify
from countdown.vocabulary import response_text
from tlt_suite import Sample
from tlt_suite.trl import TltRollouts


@dataclass(frozen=True, slots=True, kw_only=True)
class Countdown:
    """The task: the curriculum's problems."""

    settings: DemoSettings

    @property
    def curriculum(self) -> Curriculum:
        """Which problems each step has."""
        return Curriculum(hold_steps=self.settings.hold_steps, shift_steps=self.settings.shift_steps)

    def problems(self, step: int) -> list[Problem]:
        """Return the problems of a step."""
        return self.curriculum.problems(step, count=self.settings.prompts, seed=self.settings.seed)

    def grader(self, step: int) -> Grader:
        """Return what grades the responses of a step."""
        problems, cap_tokens = self.problems(step), self.settings.cap_tokens

        def grade(sample: Sample) -> Grade:
            ids, problem = sample.response.token_ids, problems[sample.prompt_index]
            text = response_text(ids)
            worth = reward(problem, text, length_tokens=len(ids), cap_tokens=cap_tokens)
            return Grade(reward=worth, correct=verify(problem, text))

        return grade

    def mix(self, step: int) -> dict[int, float]:
        """Return the share of problems by the number of numbers they contain."""
        mix = self.curriculum.mix(step)
        return {2: mix.two, 3: mix.three, 4: mix.four}


def served_state(state: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """Return the served state dict: the policy, deepened to `layers`."""
    return deepen_state(state, from_layers=LAYERS, to_layers=layers)


def rewards(
    *, completions: list[str], completion_ids: list[list[int]], problem: list[str], cap: list[int], **_: Any
) -> list[float | None]:
    """Reward function for TRL: correctness minus a penalty for length."""
    problems = [Problem(numbers=tuple(entry["numbers"]), target=entry["target"]) for entry in map(json.loads, problem)]
    return [
        reward(one, text, length_tokens=len(ids), cap_tokens=max_tokens)
        for one, text, ids, max_tokens in zip(problems, completions, completion_ids, cap, strict=True)
    ]


def dataset(task: Countdown) -> Dataset:
    """Return all prompts in the order of the steps."""
    rows = [
        {"prompt": problem.prompt, "problem": json.dumps(asdict(problem)), "cap": task.settings.cap_tokens}
        for step in range(task.settings.max_steps)
        for problem in task.problems(step)
    ]
    return Dataset.from_list(rows)


def main() -> None:
    """Train until the time limit or the last step."""
    endpoint, coordinator, directory, ends_unix_s, settings_json = sys.argv[1:]
    settings = DemoSettings(**json.loads(settings_json))
    task = Countdown(settings=settings)
    recorder = StepRecorder(settings, task, coordinator, ends_unix_s=float(ends_unix_s))
    seed = settings.seed if settings.paired else None
    rollouts = TltRollouts(
        endpoint, export=partial(served_state, layers=settings.served_layers), answer=recorder.roll_out, seed=seed
    )
    trainer = TrimmingTrainer(
        model=LlamaForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(CHECKPOINT),
        args=arguments(settings, str(Path(directory) / "trainer")),
        train_dataset=dataset(task),
        reward_funcs=rewards,
        rollout_func=rollouts,
        callbacks=[recorder],
    )
    trainer.train()
    rollouts.close()


if __name__ == "__main__":
    main()
