"""The part of a trainer that compares: rolls out each step on both sides, and reports it."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from transformers import TrainerCallback

from countdown import pairs
from countdown.budget import TimeBudget
from countdown.compare import Comparison, Grader, SideResult
from countdown.coordinator import Ledger
from countdown.events import Learning, Progress, StepDone, emit
from countdown.record import Pairs, Rollout, Side, Step
from countdown.settings import RunSettings
from tlt_suite import BlockingClient, Sample, SamplingParams, TokenChunk


class Task(Protocol):
    """What the policy is trained on."""

    def grader(self, step: int) -> Grader:
        """Return what grades the responses of a step."""

    def mix(self, step: int) -> dict[int, float]:
        """Return the step's share of problems by the number of numbers they contain; empty if all are of one kind."""


class StepRecorder(TrainerCallback):
    """Rolls out each step's prompts on both sides, and reports the step after the policy update."""

    def __init__(self, settings: RunSettings, task: Task, coordinator: str, *, ends_unix_s: float) -> None:
        self._settings = settings
        self._task = task
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
        if length := self._settings.uniform_tokens:
            sampling = replace(sampling, max_new_tokens=length, ignore_eos=True)
        results = comparison.roll_out(self._step, self._task.grader(self._step), prompts, samples, sampling)
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
        step = Step(
            index=self._step,
            mix=self._task.mix(self._step),
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
