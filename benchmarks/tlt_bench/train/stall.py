"""Time that a checkpoint blocks a trainer, compared to writing everything before training continues."""

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from tlt_bench.engines.bench_engine import log
from tlt_bench.random_frame import random_frame
from tlt_bench.ratios import Figures, over
from tlt_bench.shapes import SHAPE
from tlt_bench.train.windows import CPU
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.reading import standard_format
from tlt_trainer.data.pack import collate
from tlt_trainer.drafter.shared_weights import SharedWeights
from tlt_trainer.learner import Learner

SMALL: Mapping[str, Any] = {**SHAPE, "vocab_size": 32_000, "hidden_size": 1024, "intermediate_size": 2816,
                            "num_attention_heads": 16, "num_key_value_heads": 4}  # fmt: skip
"""A model of about 0.5B: large enough that a checkpoint is bytes, not files."""
TOKENS = 64


def measure(*, repeats: int) -> Figures:
    """Return the ratio of a blocking save's seconds to a snapshot's seconds on the training thread."""
    torch.manual_seed(0)
    form = standard_format(DrafterArchitecture.EAGLE, SMALL)
    learner = Learner(form, CPU)
    rows = torch.randn(2, form.vocab_size, form.hidden_size, dtype=torch.bfloat16) * 0.02
    shared = SharedWeights(embedding=rows[0], head=rows[1])
    learner.share(shared)
    pack = collate([random_frame(form, TOKENS)], CPU)
    blocked, ours = [], []
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        for repeat in range(repeats + 1):
            for _ in range(4):
                learner.micro_step(pack)
            began_s = time.perf_counter()
            snapshot = learner.snapshot()
            taken_s = time.perf_counter()
            everything: dict[str, Tensor] = {"embedding": shared.embedding, "head": shared.head}
            for part in ("weights", "average", "base", "optimizer"):
                everything |= {f"{part}:{name}": tensor for name, tensor in getattr(snapshot, part).items()}
            _save(everything, Path(scratch) / "everything.safetensors")
            if repeat:
                ours.append(taken_s - began_s)
                blocked.append(time.perf_counter() - taken_s)
            log(f"  snapshot {taken_s - began_s:.3f} s, blocking save {time.perf_counter() - taken_s:.3f} s")
    found = Figures()
    size = sum(tensor.nbytes for tensor in everything.values())
    found.add("checkpoint_stall_ratio", over(blocked, ours), f"a drafter of a 0.5B model, {size / 1e6:.0f} MB in all")
    found.add("checkpoint_stall_ms", [1000 * seconds for seconds in ours])
    return found


def _save(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write to the disk itself, which is required before the old checkpoint may be deleted."""
    save_file(dict(tensors), path)
    with path.open("rb") as file:
        os.fsync(file.fileno())
