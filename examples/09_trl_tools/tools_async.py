"""TRL's AsyncGRPOTrainer with a tool or an environment, with rollouts of the suite, by the policy of tools_grpo.py."""

import runpy
import tempfile
from pathlib import Path
from typing import Any

from tools_grpo import TASKS, options_of, progress

from tlt_suite import SamplingParams
from tlt_suite.trl import TltAsyncRollouts

WITHOUT_TOOLS = runpy.run_path(str(Path(__file__).resolve().parents[1] / "03_trl_async/async_grpo.py"))
MAX_STALENESS: int = WITHOUT_TOOLS["MAX_STALENESS"]


def train(endpoint: str, parts: dict[str, Any], *, steps: int, learning_rate: float) -> list[dict[str, float]]:
    """Train for some steps; return what TRL logged about each."""
    tokenizer, dataset = parts["processing_class"], parts["train_dataset"]
    given = {name: parts[name] for name in ("tools", "environment_factory") if name in parts}
    rollouts = TltAsyncRollouts(
        endpoint, dataset=dataset, tokenizer=tokenizer, reward_funcs=parts["reward_funcs"], num_generations=8,
        sampling=SamplingParams(max_new_tokens=32), max_staleness=MAX_STALENESS, groups_in_flight=4, max_buffered=32,
        max_tool_calling_iterations=2, **given,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as policy:
        parts["model"].save_pretrained(policy)
        tokenizer.save_pretrained(policy)
        log: list[dict[str, float]] = WITHOUT_TOOLS["trained"](
            policy, rollouts, tokenizer, dataset, steps=steps, learning_rate=learning_rate, batch=32
        )
        return log


if __name__ == "__main__":
    options = options_of(__doc__, steps=16).parse_args()
    log = train(
        options.endpoint, TASKS[options.task](str(options.model)), steps=options.steps,
        learning_rate=options.learning_rate,
    )  # fmt: skip
    said, staleness = progress(log), max(entry["sample/staleness_max"] for entry in log)
    assert len(log) == options.steps  # noqa: S101 - the result
    assert staleness <= MAX_STALENESS, f"a sample was {staleness:.0f} versions old"  # noqa: S101
    print(f"result: {said}; staleness at most {staleness:.0f} of {MAX_STALENESS}")
