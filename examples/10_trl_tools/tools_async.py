"""TRL's AsyncGRPOTrainer with a tool or an environment, with rollouts of the suite, by the policy of tools_grpo.py."""

import argparse
import runpy
import tempfile
from pathlib import Path
from typing import Any

import torch
from tools_grpo import TASKS
from trl.experimental.async_grpo.async_grpo_config import AsyncGRPOConfig
from trl.experimental.async_grpo.async_grpo_trainer import AsyncGRPOTrainer

from tlt_common.client import SamplingParams
from tlt_common.integrations.trl import TltAsyncRollouts

MAX_STALENESS = 2
WITHOUT_TOOLS = Path(__file__).resolve().parents[1] / "04_trl_async/async_grpo.py"


def train(endpoint: str, parts: dict[str, Any], *, steps: int, learning_rate: float) -> list[dict[str, float]]:
    """Train for some steps; return what TRL logged about each."""
    if not torch.cuda.is_available():
        runpy.run_path(str(WITHOUT_TOOLS))["replace_what_needs_a_gpu"]()
    tokenizer, dataset = parts["processing_class"], parts["train_dataset"]
    given = {name: parts[name] for name in ("tools", "environment_factory") if name in parts}
    rollouts: Any = TltAsyncRollouts(
        endpoint, dataset=dataset, tokenizer=tokenizer, reward_funcs=parts["reward_funcs"], num_generations=8,
        sampling=SamplingParams(max_new_tokens=32), max_staleness=MAX_STALENESS, groups_in_flight=4, max_buffered=32,
        max_tool_calling_iterations=2, **given,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        policy = f"{directory}/policy"
        parts["model"].save_pretrained(policy)
        tokenizer.save_pretrained(policy)
        config = AsyncGRPOConfig(
            output_dir=directory, max_steps=steps, num_generations=8, per_device_train_batch_size=32,
            max_completion_length=32, learning_rate=learning_rate, lr_scheduler_type="constant", logging_steps=1,
            use_cpu=not torch.cuda.is_available(), bf16=False, report_to=[], gradient_checkpointing=False,
            save_strategy="no", disable_tqdm=True, max_staleness=MAX_STALENESS, weight_sync_steps=1, token_budget=0,
        )  # fmt: skip
        trainer = AsyncGRPOTrainer(
            policy, args=config, train_dataset=dataset, processing_class=tokenizer,
            rollout_worker=rollouts, weight_transfer=rollouts,
        )  # fmt: skip
        trainer.train()
        return [entry for entry in trainer.state.log_history if "reward" in entry]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--endpoint", default="127.0.0.1:7700", help="host:port that `tlt up` prints.")
    parser.add_argument("--task", choices=tuple(TASKS), default="tools")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=3e-4, help="For a large model, about 1e-6.")
    options = parser.parse_args()
    log = train(
        options.endpoint, TASKS[options.task](str(options.model)), steps=options.steps,
        learning_rate=options.learning_rate,
    )  # fmt: skip
    half = len(log) // 2
    first, last = (sum(entry["reward"] for entry in part) / half for part in (log[:half], log[-half:]))
    calls = [entry["tools/call_frequency"] for entry in log]
    staleness = max(entry["sample/staleness_max"] for entry in log)
    assert len(log) == options.steps  # noqa: S101 - the result
    assert min(calls) > 0, calls  # noqa: S101
    assert last > first, f"the reward fell from {first:.3f} to {last:.3f}"  # noqa: S101
    assert staleness <= MAX_STALENESS, f"a sample was {staleness:.0f} versions old"  # noqa: S101
    print(
        f"result: mean reward {first:.3f} in the first {half} steps, {last:.3f} in the last {half}; "
        f"{calls[0]:.2f} -> {calls[-1]:.2f} calls per response; staleness at most {staleness:.0f} of {MAX_STALENESS}"
    )
