"""
Spot training on this machine's device: `python -m tlt_bench.gpu.training FILE`.

Trains a drafter of 7B shape on random states (on a CPU: of a tiny shape), in micro-steps of the size that the memory
plan gives a trainer beside an engine. Writes tokens per second, the memory used, and the duration of a micro-step,
whose 99th percentile bounds a request's wait for a lent device. Also the time to copy the weights off the device for a
checkpoint.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tlt_bench.gpu.timing import seconds
from tlt_bench.random_frame import random_frame
from tlt_bench.shapes import SHAPE
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.reading import standard_format
from tlt_trainer.data.pack import collate
from tlt_trainer.drafter.shared_weights import SharedWeights
from tlt_trainer.learner import Learner

TINY: Mapping[str, Any] = {**SHAPE, "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128,
                           "num_attention_heads": 4, "num_key_value_heads": 2}  # fmt: skip
BATCH_TOKENS = 512
WARM, STEPS = 5, 60


def main(path: Path) -> None:
    """Train and time."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    shape = SHAPE if device.type == "cuda" else TINY
    form = standard_format(DrafterArchitecture.EAGLE, shape)
    learner = Learner(form, device)
    rows = torch.randn(2, form.vocab_size, form.hidden_size, dtype=torch.bfloat16, device=device) * 0.02
    learner.share(SharedWeights(embedding=rows[0], head=rows[1]))
    frames = [random_frame(form, BATCH_TOKENS, number=number) for number in range(STEPS)]

    def step(number: int) -> None:
        learner.micro_step(collate([frames[number % STEPS]], device))

    for number in range(WARM):
        step(number)
    times = sorted(seconds(device, lambda number=number: step(number)) for number in range(STEPS))  # type: ignore[misc]
    figures = {
        "tokens_per_s": BATCH_TOKENS * STEPS / sum(times),
        "micro_step_ms_p50": 1000 * times[STEPS // 2],
        "micro_step_ms_p99": 1000 * times[int(0.99 * STEPS)],
        "snapshot_ms": 1000 * seconds(device, learner.snapshot),
    }
    if device.type == "cuda":
        figures["memory_gib"] = torch.cuda.max_memory_reserved() / 2**30
    path.write_text(json.dumps({"figures": figures}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
