"""TRL's GRPO as the demos use it: one on-policy update per step, on a CPU beside the engines."""

from typing import Any

import torch
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from countdown.settings import RunSettings
from tlt_common.machine import multiplies_bfloat16

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


def arguments(settings: RunSettings, directory: str) -> GRPOConfig:
    """Return the settings for GRPO with one on-policy update per step."""
    responses = settings.prompts * settings.samples
    return GRPOConfig(
        output_dir=directory,
        per_device_train_batch_size=LEARN_ROWS,
        gradient_accumulation_steps=responses // LEARN_ROWS,
        num_generations=settings.samples,
        max_completion_length=settings.cap_tokens,
        temperature=settings.temperature,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=settings.warmup_steps,
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
