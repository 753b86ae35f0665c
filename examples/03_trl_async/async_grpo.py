"""TRL's AsyncGRPOTrainer with rollouts of the suite: generation goes on while the policy is updated."""

import argparse
import sys
import tempfile
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from datasets import Dataset
from torch.nn.functional import scaled_dot_product_attention
from transformers import AutoTokenizer

from tlt_suite import SamplingParams
from tlt_suite.trl import TltAsyncRollouts, async_trainer

AsyncGRPOTrainer, AsyncGRPOConfig = async_trainer()
MAX_STALENESS = 2


def distinct(completion_ids: list[list[int]], **_: Any) -> list[float | None]:
    """Reward the share of distinct tokens."""
    return [len(set(ids)) / len(ids) for ids in completion_ids]


def varlen_on_cpu(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    starts_q: torch.Tensor,
    starts_k: torch.Tensor,
    *_: Any,
    softmax_scale: float | None = None,
    **__: Any,
) -> torch.Tensor:
    """Compute what TRL's FlashAttention kernel for GPUs does: causal attention by segment, aligned at the end."""
    parts = []
    for (begin_q, end_q), (begin_k, end_k) in zip(_spans(starts_q), _spans(starts_k), strict=True):
        q, k, v = (
            part.transpose(0, 1)[None] for part in (query[begin_q:end_q], key[begin_k:end_k], value[begin_k:end_k])
        )
        mask = torch.ones(end_q - begin_q, end_k - begin_k, dtype=torch.bool).tril(end_k - begin_k - end_q + begin_q)
        out = scaled_dot_product_attention(q, k, v, mask, scale=softmax_scale, enable_gqa=True)
        parts.append(out[0].transpose(0, 1))
    return torch.cat(parts)


def replace_what_needs_a_gpu() -> None:
    """Replace TRL's attention kernel, and its look at the GPU's speed."""
    trainers: Any = sys.modules[AsyncGRPOTrainer.__module__]
    kernels: Any = import_module(trainers.__package__ + ".packing")
    kernels._flash_attn = lambda: SimpleNamespace(flash_attn_varlen_func=varlen_on_cpu)  # noqa: SLF001
    trainers.get_peak_flops_per_device = lambda *_: None


def _spans(starts: torch.Tensor) -> list[tuple[int, int]]:
    values: list[int] = starts.tolist()
    return list(pairwise(values))


def trained(
    model: str, rollouts: Any, tokenizer: Any, dataset: Dataset, *, steps: int, learning_rate: float, batch: int
) -> list[dict[str, float]]:
    """Train for some steps, on rollouts of at most 32 tokens; return what TRL logged about each."""
    if not torch.cuda.is_available():
        replace_what_needs_a_gpu()
    with tempfile.TemporaryDirectory() as directory:
        config = AsyncGRPOConfig(
            output_dir=directory, max_steps=steps, num_generations=8, per_device_train_batch_size=batch,
            max_completion_length=32, learning_rate=learning_rate, lr_scheduler_type="constant", logging_steps=1,
            use_cpu=not torch.cuda.is_available(), bf16=False, report_to=[], gradient_checkpointing=False,
            save_strategy="no", disable_tqdm=True, max_staleness=MAX_STALENESS, weight_sync_steps=1, token_budget=0,
        )  # fmt: skip
        trainer = AsyncGRPOTrainer(
            model, args=config, train_dataset=dataset, processing_class=tokenizer,
            rollout_worker=rollouts, weight_transfer=rollouts,
        )  # fmt: skip
        trainer.train()
        return [entry for entry in trainer.state.log_history if "reward" in entry]


def train(endpoint: str, model: str, *, steps: int, learning_rate: float) -> list[dict[str, float]]:
    """Train for some steps; return what TRL logged about each."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    dataset = Dataset.from_dict({"prompt": ["3 7 11 = 32", "2 5 9 = 43", "4 6 8 = 20", "1 3 9 = 28"]})
    rollouts = TltAsyncRollouts(
        endpoint, dataset=dataset, tokenizer=tokenizer, reward_funcs=[distinct], num_generations=8,
        sampling=SamplingParams(max_new_tokens=32), max_staleness=MAX_STALENESS, groups_in_flight=2,
        max_buffered=16,
    )  # fmt: skip
    return trained(model, rollouts, tokenizer, dataset, steps=steps, learning_rate=learning_rate, batch=16)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--endpoint", default="127.0.0.1:7700", help="host:port that `tlt up` prints.")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="For a large model, about 1e-6.")
    options = parser.parse_args()
    log = train(options.endpoint, str(options.model), steps=options.steps, learning_rate=options.learning_rate)
    staleness = [entry["sample/staleness_max"] for entry in log]
    assert len(log) == options.steps  # noqa: S101
    assert max(staleness) <= MAX_STALENESS  # noqa: S101
    print(
        f"result: {len(log)} steps, reward {log[0]['reward']:.3f} -> {log[-1]['reward']:.3f}, staleness at most "
        f"{max(staleness):.0f} of {MAX_STALENESS} versions"
    )
