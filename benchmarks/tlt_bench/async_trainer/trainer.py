"""
TRL's AsyncGRPOTrainer on Countdown, with rollouts of the suite.

A separate program: `python -m tlt_bench.async_trainer.trainer ENDPOINT DIRECTORY SETTINGS`. It prints a `TrainedStep`
as JSON after each optimizer step, and begins a step only while the file `TURN` is in the directory. It runs until it is
stopped.
"""

import json
import runpy
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import AutoTokenizer, TrainerCallback

from countdown.curriculum import LARGE
from countdown.model import CHECKPOINT
from countdown.task import draw_problems
from countdown.trainer import rewards, served_state
from tlt_bench.async_trainer.record import TURN, AsyncSettings, TrainedStep
from tlt_suite import SamplingParams
from tlt_suite.trl import TltAsyncRollouts, async_trainer

EXAMPLE = Path(__file__).parents[3] / "examples/03_trl_async/async_grpo.py"
"""Replaces the parts of TRL's trainer that need a GPU."""
LOOK_S = 0.05
NEVER_S = 1e6
"""TRL takes a rollout worker without samples for hung after a while, which between its turns it is."""


class DeepRollouts(TltAsyncRollouts):
    """Publishes the policy deepened to the served layers."""

    served_layers: int

    def send_weights(self, iterator: Iterator[tuple[str, Any]]) -> None:
        """Publish the weights; see `TltAsyncRollouts.send_weights`."""
        super().send_weights(iter(served_state(dict(iterator), self.served_layers).items()))


class TurnTaker(TrainerCallback):
    """Holds the trainer between its turns, and prints its steps."""

    def __init__(self, turn: Path) -> None:
        self._turn = turn

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Wait for the turn."""
        while not self._turn.exists():
            time.sleep(LOOK_S)

    def on_log(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Print what TRL logged about a step."""
        del args, control
        logs: Mapping[str, float] = given["logs"]
        if "reward" in logs:
            step = TrainedStep(
                step=state.global_step,
                reward=logs["reward"],
                staleness_mean=logs["sample/staleness_mean"] - logs["rollout/versions_newer_mean"],
                staleness_max=logs["sample/staleness_max"],
            )
            sys.stdout.write(step.model_dump_json() + "\n")
            sys.stdout.flush()


def dataset(settings: AsyncSettings) -> Dataset:
    """Return the prompts, in the order in which their groups begin."""
    problems = draw_problems(settings.prompts, seed=settings.seed, mix=LARGE)
    return Dataset.from_list(
        [{"prompt": one.prompt, "problem": json.dumps(asdict(one)), "cap": settings.cap_tokens} for one in problems]
    )


def main() -> None:
    """Train until the process is stopped."""
    endpoint, directory, settings_json = sys.argv[1:]
    settings = AsyncSettings.model_validate_json(settings_json)
    trainer_class, config_class = async_trainer()
    runpy.run_path(str(EXAMPLE))["replace_what_needs_a_gpu"]()
    tokenizer, prompts = AutoTokenizer.from_pretrained(CHECKPOINT), dataset(settings)
    rollouts = DeepRollouts(
        endpoint, dataset=prompts, tokenizer=tokenizer, reward_funcs=[rewards], num_generations=settings.samples,
        sampling=SamplingParams(max_new_tokens=settings.cap_tokens, seed=settings.seed),
        max_staleness=settings.max_staleness, groups_in_flight=settings.groups, max_buffered=settings.in_flight,
    )  # fmt: skip
    rollouts.served_layers = settings.served_layers
    config = config_class(
        output_dir=f"{directory}/trainer", max_steps=10**6, num_generations=settings.samples,
        per_device_train_batch_size=settings.in_flight, max_completion_length=settings.cap_tokens,
        learning_rate=settings.learning_rate, lr_scheduler_type="constant", logging_steps=1, use_cpu=True, bf16=False,
        report_to=[], gradient_checkpointing=False, save_strategy="no", disable_tqdm=True,
        max_staleness=settings.max_staleness, weight_sync_steps=1, token_budget=0, heartbeat_stale_after_s=NEVER_S,
        seed=settings.seed,
    )  # fmt: skip
    trainer_class(
        str(CHECKPOINT), args=config, train_dataset=prompts, processing_class=tokenizer,
        rollout_worker=rollouts, weight_transfer=rollouts, callbacks=[TurnTaker(Path(directory) / TURN)],
    ).train()  # fmt: skip


if __name__ == "__main__":
    main()
