"""GRPO by TRL with tools or environments, with rollouts of the suite: a tiny policy learns to use a tool."""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from datasets import Dataset
from tiny_policy import NUMBERS, tokenizer_of, warmed
from tool_tasks import Safe, drawer_texts, found, look, safe_texts
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from tlt_suite.trl import TltRollouts

TEXTS = 2000
ROWS = 64


def drawers(model: str) -> dict[str, Any]:
    """Return the trainer's arguments for the task with a tool."""
    tokenizer = tokenizer_of("look")
    rows = [str(Random(row).choice(NUMBERS)) for row in range(ROWS)]
    return {
        "model": warmed(model, tokenizer, drawer_texts(TEXTS)),
        "processing_class": tokenizer,
        "tools": [look],
        "reward_funcs": [found],
        "train_dataset": Dataset.from_dict({"prompt": [_asked(f"drawer {row}") for row in rows], "drawer": rows}),
    }


def safes(model: str) -> dict[str, Any]:
    """Return the trainer's arguments for the task with an environment."""
    tokenizer = tokenizer_of("press")
    rows = [" ".join(Random(row).choices(NUMBERS, k=2)) for row in range(ROWS)]
    return {
        "model": warmed(model, tokenizer, safe_texts(TEXTS)),
        "processing_class": tokenizer,
        "environment_factory": Safe,
        "reward_funcs": [],
        "train_dataset": Dataset.from_dict({"prompt": [_asked("safe")] * ROWS, "code": rows}),
    }


TASKS = {"tools": drawers, "environments": safes}


def train(endpoint: str, parts: dict[str, Any], *, steps: int, learning_rate: float) -> list[dict[str, float]]:
    """Train for some steps; return what TRL logged about each."""
    rollouts = TltRollouts(endpoint)
    with tempfile.TemporaryDirectory() as directory:
        config = GRPOConfig(
            output_dir=directory, max_steps=steps, num_generations=8, per_device_train_batch_size=32,
            max_completion_length=32, max_tool_calling_iterations=2, learning_rate=learning_rate, logging_steps=1,
            use_cpu=True, bf16=False, report_to=[], gradient_checkpointing=False, save_strategy="no", beta=0.0,
            lr_scheduler_type="constant", disable_tqdm=True, vllm_importance_sampling_mode="token_truncate",
        )  # fmt: skip
        trainer = GRPOTrainer(args=config, **parts)
        rollouts.attach(trainer)
        trainer.train()
        rollouts.close()
        return [entry for entry in trainer.state.log_history if "reward" in entry]


def options_of(description: str | None, *, steps: int) -> argparse.ArgumentParser:
    """Return a parser of the options of both programs."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", type=Path, required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--endpoint", default="127.0.0.1:7700", help="host:port that `tlt up` prints.")
    parser.add_argument("--task", choices=tuple(TASKS), default="tools")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--learning-rate", type=float, default=3e-4, help="For a large model, about 1e-6.")
    return parser


def progress(log: Sequence[dict[str, float]]) -> str:
    """Check that tools were called in every step, and that the reward rose; return both in words."""
    half = len(log) // 2
    first, last = (sum(entry["reward"] for entry in part) / half for part in (log[:half], log[-half:]))
    calls = [entry["tools/call_frequency"] for entry in log]
    assert min(calls) > 0, calls  # noqa: S101 - the result
    assert last > first, f"the reward fell from {first:.3f} to {last:.3f}"  # noqa: S101
    return (
        f"mean reward {first:.3f} in the first {half} steps, {last:.3f} in the last {half}; "
        f"{calls[0]:.2f} -> {calls[-1]:.2f} calls per response"
    )


def _asked(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


if __name__ == "__main__":
    parser = options_of(__doc__, steps=12)
    parser.add_argument(
        "--tolerance", type=float, default=1e-3,
        help="Between logprobs of engine and trainer; for engines in float32. In bfloat16, about 0.1.",
    )  # fmt: skip
    options = parser.parse_args()
    log = train(
        options.endpoint, TASKS[options.task](str(options.model)), steps=options.steps,
        learning_rate=options.learning_rate,
    )  # fmt: skip
    said = progress(log)
    failures = sum(entry["tools/failure_frequency"] for entry in log) / len(log)
    difference = max(entry["sampling/sampling_logp_difference/max"] for entry in log)
    assert difference < options.tolerance, f"a logprob differs by {difference:.3f} from the trainer's"  # noqa: S101
    print(f"result: {said}, {failures:.0%} failed; logprobs differ by at most {difference:.0e} from the trainer's")
