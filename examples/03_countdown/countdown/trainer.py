"""
The demo's external trainer: TRL's GRPO on Countdown, with rollouts from the suite.

A separate program: `python -m countdown.trainer ENDPOINT COORDINATOR ENDS_UNIX_S SETTINGS`. For training it uses only
the client and the TRL integration of the suite; it trains the small policy and publishes its deepened version. For the
measurement it calls the coordinator to enable and disable lending and to read worker-seconds by state.
"""

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoTokenizer, LlamaForCausalLM, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from countdown import pairs
from countdown.budget import TimeBudget
from countdown.compare import Comparison, SideResult
from countdown.coordinator import Ledger
from countdown.curriculum import Curriculum, reward
from countdown.events import Learning, Progress, StepDone, emit
from countdown.model import CHECKPOINT, LAYERS, SERVED_LAYERS, deepen_state
from countdown.record import Pairs, Rollout, Side, Step
from countdown.settings import DemoSettings
from countdown.task import Problem
from tlt_common.machine import multiplies_bfloat16
from tlt_suite import BlockingClient, Sample, SamplingParams, TokenChunk
from tlt_suite.trl import TltRollouts

LEARN_ROWS = 2
"""Responses per forward pass. Few, so that short responses are rarely padded to the length of a long one."""


class TrimmingTrainer(GRPOTrainer):
    """GRPO that pads each micro-batch to its own longest response; TRL pads to the longest of the step."""

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


class StepRecorder(TrainerCallback):
    """Rolls out each step's prompts on both sides, and reports the step after the policy update."""

    def __init__(self, settings: DemoSettings, curriculum: Curriculum, coordinator: str, *, ends_unix_s: float) -> None:
        self._settings = settings
        self._curriculum = curriculum
        self._ledger = Ledger(coordinator)
        self._step = 0
        self._rollouts: tuple[Rollout, ...] = ()
        self._pairs: Pairs | None = None
        self._learn_began = self._learn_began_unix_s = 0.0
        self._budget = TimeBudget(ends_unix_s=ends_unix_s, min_steps=settings.min_steps)

    def roll_out(
        self,
        client: BlockingClient,
        prompts: Sequence[Sequence[int]],
        samples: int,
        sampling: SamplingParams,
        /,
        *,
        policy_version: int,
    ) -> list[list[TokenChunk]]:
        """Roll out every side; return the responses to learn from. The others are for comparison only."""
        self._finish_step()
        self._budget.begin(time.time())
        comparison = Comparison(
            client,
            self._ledger,
            sides=self._sides(),
            policy_version=policy_version,
            on_progress=self._on_progress,
        )
        problems = self._curriculum.problems(self._step, count=self._settings.prompts, seed=self._settings.seed)
        if length := self._settings.uniform_tokens:
            sampling = replace(sampling, max_new_tokens=length, ignore_eos=True)
        results = comparison.roll_out(self._step, problems, prompts, samples, sampling)
        self._rollouts = tuple(result.record for result in results)
        self._pairs = self._paired(results)
        emit(Learning(step=self._step))
        self._learn_began, self._learn_began_unix_s = time.perf_counter(), time.time()
        return _of_side(results, self._settings.sides[0])

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Stop training if there is no time for another step."""
        del args, state
        if not self._budget.allows_another(time.time()):
            control.should_training_stop = True
        return control

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Report the last step; nothing is published after it."""
        self._finish_step()

    def _sides(self) -> tuple[Side, ...]:
        """Compare only once the workers have a drafter: before that, the comparison would delay the first one."""
        sides = self._settings.sides
        is_cold = not self._ledger.drafter_version
        return sides[:1] if is_cold and not self._settings.compare_cold else sides

    def _paired(self, results: tuple[SideResult, ...]) -> Pairs | None:
        if len(results) < 2 or not self._settings.paired:
            return None
        return pairs.compare(_of_side(results, "on"), _of_side(results, "off"))

    def _finish_step(self) -> None:
        """Report the previous step. Its weights are published by now: learning ends when the next rollout begins."""
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
            pairs=self._pairs,
        )
        emit(StepDone(step=step))
        self._rollouts = ()
        self._step += 1

    def _on_progress(self, side: Side, sample: Sample) -> None:
        emit(Progress(step=self._step, side=side, finished=sample.finished_count, total=sample.total_count))


def _of_side(results: tuple[SideResult, ...], side: Side) -> list[list[TokenChunk]]:
    return next(result.responses for result in results if result.record.side == side)


def served_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the served state dict: the policy, deepened to the engines' number of layers."""
    return deepen_state(state, from_layers=LAYERS, to_layers=SERVED_LAYERS)


def rewards(
    *, completions: list[str], completion_ids: list[list[int]], problem: list[str], cap: list[int], **_: Any
) -> list[float | None]:
    """Reward function for TRL: correctness minus a penalty for length."""
    problems = [Problem(numbers=tuple(entry["numbers"]), target=entry["target"]) for entry in map(json.loads, problem)]
    return [
        reward(one, text, length_tokens=len(ids), cap_tokens=max_tokens)
        for one, text, ids, max_tokens in zip(problems, completions, completion_ids, cap, strict=True)
    ]


def dataset(settings: DemoSettings, curriculum: Curriculum) -> Dataset:
    """Return all prompts in the order of the steps."""
    rows = [
        {"prompt": problem.prompt, "problem": json.dumps(asdict(problem)), "cap": settings.cap_tokens}
        for step in range(settings.max_steps)
        for problem in curriculum.problems(step, count=settings.prompts, seed=settings.seed)
    ]
    return Dataset.from_list(rows)


def arguments(settings: DemoSettings, directory: str) -> GRPOConfig:
    """Return the settings for GRPO with one on-policy update per step."""
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
        max_steps=settings.max_steps,
        shuffle_dataset=False,
        beta=0.0,
        # Scaled by group, a group of only correct answers would learn from their lengths alone, and just as strongly.
        scale_rewards="batch",
        use_cpu=not torch.cuda.is_available(),
        # Twice as fast on CPUs with native bfloat16 multiplication; others would emulate it.
        bf16=torch.cuda.is_available() or multiplies_bfloat16(),
        save_strategy="no",
        report_to=[],
        logging_steps=1,
        disable_tqdm=True,
        gradient_checkpointing=False,
        seed=settings.seed,
    )


def main() -> None:
    """Train until the time limit or the last step."""
    endpoint, coordinator, ends_unix_s, settings_json = sys.argv[1:]
    settings = DemoSettings(**json.loads(settings_json))
    curriculum = Curriculum(hold_steps=settings.hold_steps, shift_steps=settings.shift_steps)
    recorder = StepRecorder(settings, curriculum, coordinator, ends_unix_s=float(ends_unix_s))
    seed = settings.seed if settings.paired else None
    rollouts = TltRollouts(endpoint, export=served_state, answer=recorder.roll_out, seed=seed)
    with tempfile.TemporaryDirectory(prefix="tlt-trainer-") as directory:
        trainer = TrimmingTrainer(
            model=LlamaForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32),
            processing_class=AutoTokenizer.from_pretrained(CHECKPOINT),
            args=arguments(settings, directory),
            train_dataset=dataset(settings, curriculum),
            reward_funcs=rewards,
            rollout_func=rollouts,
            callbacks=[recorder],
        )
        trainer.train()
    rollouts.close()


if __name__ == "__main__":
    main()
