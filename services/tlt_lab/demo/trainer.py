"""
The demo's external trainer: TRL's GRPO on Countdown, with rollouts from the suite.

A program of its own: `python -m tlt_lab.demo.trainer ENDPOINT COORDINATOR SETTINGS`. As a trainer it uses the client
and the TRL integration and nothing else of the suite; it trains the small policy and publishes its deep image. What is
measured (lending on and off, the ledger) is asked of the coordinator.
"""

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoTokenizer, LlamaForCausalLM, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from tlt_common.client import BlockingClient, Sample, SamplingParams, TokenChunk
from tlt_common.integrations.trl import TltRollouts
from tlt_lab.demo.compare import Comparison
from tlt_lab.demo.coordinator import Ledger
from tlt_lab.demo.curriculum import Curriculum, reward
from tlt_lab.demo.events import Learning, Progress, StepDone, emit
from tlt_lab.demo.model import CHECKPOINT, LAYERS, SERVED_LAYERS, deepen_state
from tlt_lab.demo.record import Rollout, Side, Step
from tlt_lab.demo.settings import DemoSettings
from tlt_lab.demo.task import Problem

LEARN_ROWS = 2
"""Responses of one forward pass: few, so that a short one seldom is padded to the length of a long one."""


class TrimmingTrainer(GRPOTrainer):
    """GRPO whose micro-batches are as wide as their own longest response; TRL pads to the longest of the step."""

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        inputs: dict[str, Any] = super()._prepare_inputs(generation_batch)
        mask = inputs["completion_mask"]
        width, longest = mask.shape[1], int(mask.sum(1).max())
        return {
            name: value[:, :longest]
            if isinstance(value, torch.Tensor) and value.shape[1:] == (width,) and not name.startswith("prompt")
            else value
            for name, value in inputs.items()
        }


class Measured(TrainerCallback):
    """Answers each step's prompts on both sides, and tells what came out once the step is learned from."""

    def __init__(self, settings: DemoSettings, curriculum: Curriculum, coordinator: str) -> None:
        self._settings = settings
        self._curriculum = curriculum
        self._ledger = Ledger(coordinator)
        self._step = 0
        self._rollouts: tuple[Rollout, ...] = ()
        self._learn_began = self._learn_began_unix_s = 0.0
        self._ends = time.monotonic() + 60 * settings.minutes

    def answer(
        self, client: BlockingClient, prompts: Sequence[Sequence[int]], samples: int, sampling: SamplingParams
    ) -> list[list[TokenChunk]]:
        """Answer on every side; return what is learned from, the others are for comparison only."""
        self._finish_step()
        cap = sampling.max_new_tokens or 1
        sides = self._settings.sides
        comparison = Comparison(client, self._ledger, sides=sides, cap_tokens=cap, watch=self._watch())
        problems = self._curriculum.problems(self._step, count=self._settings.prompts, seed=self._settings.seed)
        answered = comparison.answer(self._step, problems, prompts, samples)
        self._rollouts = tuple(answer.record for answer in answered)
        emit(Learning(step=self._step))
        self._learn_began, self._learn_began_unix_s = time.perf_counter(), time.time()
        return next(answer.responses for answer in answered if answer.record.side == sides[0])

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Stop when the time is up."""
        del args, state
        control.should_training_stop = control.should_training_stop or time.monotonic() > self._ends
        return control

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Tell the last step; nothing is published after it."""
        self._finish_step()

    def _finish_step(self) -> None:
        """The weights of the step are published by now: learning ends where the next rollout begins."""
        if not self._rollouts:
            return
        mix = self._curriculum.mix(self._step)
        step = Step(
            index=self._step,
            mix={2: mix.two, 3: mix.three, 4: mix.four},
            rollouts=self._rollouts,
            learn_began_unix_s=self._learn_began_unix_s,
            learn_s=time.perf_counter() - self._learn_began,
            learn_ledger=self._ledger.since(),
        )
        emit(StepDone(step=step))
        self._rollouts = ()
        self._step += 1

    def _watch(self) -> Any:
        def watch(side: Side, sample: Sample) -> None:
            emit(Progress(step=self._step, side=side, finished=sample.finished_count, total=sample.total_count))

        return watch


def deep_image(state: Mapping[str, Any]) -> dict[str, Any]:
    """What is served: the policy, deepened to the layers the engines run."""
    return deepen_state(state, from_layers=LAYERS, to_layers=SERVED_LAYERS)


def rewards(
    *, completions: list[str], completion_ids: list[list[int]], problem: list[str], cap: list[int], **_: Any
) -> list[float | None]:
    """TRL's reward function: correctness minus a penalty for length."""
    asked = [Problem(numbers=tuple(entry["numbers"]), target=entry["target"]) for entry in map(json.loads, problem)]
    return [
        reward(one, text, length_tokens=len(ids), cap_tokens=most)
        for one, text, ids, most in zip(asked, completions, completion_ids, cap, strict=True)
    ]


def dataset(settings: DemoSettings, curriculum: Curriculum) -> Dataset:
    """All prompts in the order of the steps."""
    rows = [
        {"prompt": problem.prompt, "problem": json.dumps(asdict(problem)), "cap": settings.cap_tokens}
        for step in range(settings.steps)
        for problem in curriculum.problems(step, count=settings.prompts, seed=settings.seed)
    ]
    return Dataset.from_list(rows)


def arguments(settings: DemoSettings, directory: str) -> GRPOConfig:
    """GRPO with one on-policy update a step."""
    responses = settings.prompts * settings.samples
    return GRPOConfig(
        output_dir=directory,
        per_device_train_batch_size=LEARN_ROWS,
        gradient_accumulation_steps=responses // LEARN_ROWS,
        num_generations=settings.samples,
        max_completion_length=settings.cap_tokens,
        temperature=1.0,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=2,
        max_steps=settings.steps,
        shuffle_dataset=False,
        beta=0.0,
        # By group, a group whose answers are all right would learn from their lengths alone, as strongly.
        scale_rewards="batch",
        use_cpu=not torch.cuda.is_available(),
        # Twice as fast where the processor multiplies it; elsewhere it would be emulated.
        bf16=torch.cuda.is_available() or torch.cpu._is_avx512_bf16_supported(),  # noqa: SLF001
        save_strategy="no",
        report_to=[],
        logging_steps=1,
        disable_tqdm=True,
        gradient_checkpointing=False,
        seed=settings.seed,
    )


def main() -> None:
    """Train until the steps or the time are used up."""
    endpoint, coordinator, described = sys.argv[1:]
    settings = DemoSettings(**json.loads(described))
    curriculum = Curriculum(hold_steps=settings.hold_steps, shift_steps=settings.shift_steps)
    measured = Measured(settings, curriculum, coordinator)
    rollouts = TltRollouts(endpoint, export=deep_image, answer=measured.answer)
    with tempfile.TemporaryDirectory(prefix="tlt-trainer-") as directory:
        trainer = TrimmingTrainer(
            model=LlamaForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32),
            processing_class=AutoTokenizer.from_pretrained(CHECKPOINT),
            args=arguments(settings, directory),
            train_dataset=dataset(settings, curriculum),
            reward_funcs=rewards,
            rollout_func=rollouts,
            callbacks=[measured],
        )
        trainer.train()
    rollouts.close()


if __name__ == "__main__":
    main()
