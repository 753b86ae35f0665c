"""GRPO by TRL, with rollouts of the suite."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import AutoTokenizer
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from tlt_common.integrations.trl import TltRollouts


def distinct(completion_ids: list[list[int]], **_: Any) -> list[float | None]:
    """Reward the share of distinct tokens."""
    return [len(set(ids)) / len(ids) for ids in completion_ids]


def train(endpoint: str, model: Any, tokenizer: Any, prompts: list[str], *, steps: int) -> list[dict[str, float]]:
    """Train for some steps; return what TRL logged."""
    with tempfile.TemporaryDirectory() as directory:
        rollouts = TltRollouts(endpoint)
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=[distinct],
            processing_class=tokenizer,
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            rollout_func=rollouts,
            args=GRPOConfig(
                output_dir=directory, max_steps=steps, num_generations=4, per_device_train_batch_size=8,
                max_completion_length=32, logging_steps=1, use_cpu=True, bf16=False, report_to=[],
                gradient_checkpointing=False, save_strategy="no",
            ),
        )  # fmt: skip
        trainer.train()
        rollouts.close()
        return list(trainer.state.log_history)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--endpoint", default="127.0.0.1:7700", help="host:port that `tlt up` prints.")
    parser.add_argument("--steps", type=int, default=2)
    options = parser.parse_args()
    text = ["3 7 11 = 32", "2 5 9 = 43", "4 6 8 = 20", "1 3 9 = 28"]
    train(options.endpoint, str(options.model), AutoTokenizer.from_pretrained(options.model), text, steps=options.steps)
