"""GRPO or RLOO by TRL, with rollouts of the suite."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import AutoTokenizer
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_config import RLOOConfig
from trl.trainer.rloo_trainer import RLOOTrainer

from tlt_suite.trl import TltRollouts


def distinct(completion_ids: list[list[int]], **_: Any) -> list[float | None]:
    """Reward the share of distinct tokens."""
    return [len(set(ids)) / len(ids) for ids in completion_ids]


def train(
    endpoint: str,
    model: str,
    prompts: list[str],
    *,
    steps: int,
    algorithm: str,
    learning_rate: float,
    lora: bool = False,
    colocated: bool = False,
) -> list[dict[str, float]]:
    """Train for some steps; return what TRL logged about each."""
    trainer_of, config_of = (GRPOTrainer, GRPOConfig) if algorithm == "grpo" else (RLOOTrainer, RLOOConfig)
    rollouts = TltRollouts(endpoint, colocated=colocated)
    with tempfile.TemporaryDirectory() as directory:
        config: Any = config_of(
            output_dir=directory, max_steps=steps, num_generations=8, per_device_train_batch_size=16,
            max_completion_length=32, learning_rate=learning_rate, logging_steps=1, use_cpu=True, bf16=False,
            report_to=[], gradient_checkpointing=False, save_strategy="no", beta=0.0,
            lr_scheduler_type="constant", disable_tqdm=True,
        )  # fmt: skip
        options: dict[str, Any] = {"rollout_func": rollouts} if algorithm == "grpo" else {}
        if lora:  # only the adapter is published; workers merge it into the model that they serve
            from peft import LoraConfig

            options["peft_config"] = LoraConfig(target_modules="all-linear", r=8, lora_alpha=32)
        trainer: Any = trainer_of(
            model=model,
            reward_funcs=[distinct],
            processing_class=AutoTokenizer.from_pretrained(model),
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            args=config,
            **options,
        )
        if algorithm == "rloo":  # has no rollout_func
            rollouts.attach(trainer)
        trainer.train()
        rollouts.close()
        return [entry for entry in trainer.state.log_history if "reward" in entry]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--endpoint", default="127.0.0.1:7700", help="host:port that `tlt up` prints.")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--algorithm", choices=("grpo", "rloo"), default="grpo")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="For a large model, about 1e-6.")
    parser.add_argument(
        "--colocated", action="store_true", help="Learn on the workers' devices, which need engine.releasable."
    )
    parser.add_argument("--lora", action="store_true", help="Train an adapter (LoRA) instead of all weights.")
    options = parser.parse_args()
    text = ["3 7 11 = 32", "2 5 9 = 43", "4 6 8 = 20", "1 3 9 = 28"]
    log = train(
        options.endpoint, str(options.model), text, steps=options.steps, algorithm=options.algorithm,
        learning_rate=options.learning_rate, lora=options.lora, colocated=options.colocated,
    )  # fmt: skip
    half = len(log) // 2
    first, last = (sum(entry["reward"] for entry in part) / half for part in (log[:half], log[-half:]))
    assert last > first, f"the reward fell from {first:.3f} to {last:.3f}"  # noqa: S101 - the result
    print(f"result: mean reward {first:.3f} in the first {half} steps, {last:.3f} in the last {half}")
