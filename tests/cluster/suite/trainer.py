"""
A GRPO trainer of TRL outside the cluster, which gets its rollouts from the suite and sends it weights.

    python trainer.py ENDPOINT TOKEN_FILE CA_FILE SERVER_NAME CHECKPOINT STEPS

Prints a JSON object: per step the policy version that answered, and the tokens it was answered with.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

from datasets import Dataset
from transformers import AutoTokenizer, LlamaForCausalLM
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from tlt_common.integrations.trl import Rollout, TltRollouts

PROMPTS = (
    "Numbers 2 7 . Target 5 .",
    "Numbers 3 4 . Target 7 .",
    "Numbers 1 8 . Target 9 .",
    "Numbers 2 3 . Target 6 .",
)
SAMPLES = 2
LONGEST_TOKENS = 160


def lengths(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """A reward that tells samples apart, whatever they say."""
    return [float(len(ids)) for ids in completion_ids]


def main(endpoint: str, token: str, ca: str, server_name: str, checkpoint: str, steps: str) -> None:
    taken: list[Rollout] = []
    rollouts = TltRollouts(endpoint, token=Path(token), ca=Path(ca), server_name=server_name, on_rollout=taken.append)
    with tempfile.TemporaryDirectory() as directory:
        trainer = GRPOTrainer(
            model=LlamaForCausalLM.from_pretrained(checkpoint),
            processing_class=cast(Any, AutoTokenizer).from_pretrained(checkpoint),
            reward_funcs=[cast(Any, lengths)],
            train_dataset=Dataset.from_dict({"prompt": list(PROMPTS)}),
            rollout_func=rollouts,
            args=GRPOConfig(
                output_dir=directory,
                per_device_train_batch_size=len(PROMPTS),
                num_generations=SAMPLES,
                max_steps=int(steps),
                max_completion_length=LONGEST_TOKENS,
                learning_rate=1e-5,
                use_cpu=True,
                bf16=False,
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
            ),
        )
        trainer.train()
    rollouts.close()
    told = [
        {
            "policy_version": rollout.policy_version,
            "answered_by": sorted({version for response in rollout.responses for version in response.policy_versions}),
            "tokens": sum(len(response.token_ids) for response in rollout.responses),
        }
        for rollout in taken
    ]
    sys.stdout.write(json.dumps({"steps": told}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:7])
