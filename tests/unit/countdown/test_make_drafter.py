"""A drafter made without the suite."""

from pathlib import Path

import torch
from safetensors.torch import load_file

from countdown.make_drafter import Progress, make_drafter
from countdown.model import CHECKPOINT
from tlt_common.drafter.meta import META_FILE, WEIGHTS_FILE, meta_of
from tlt_trainer.drafter.files import from_files
from tlt_trainer.drafter.shared_weights import read_format


def test_a_run_learns_and_leaves_a_drafter_that_fits_the_policy(tmp_path: Path) -> None:
    seen: list[Progress] = []
    done = make_drafter(CHECKPOINT, tmp_path, threads=1, token_budget=2_000, problems=8, report=seen.append)
    assert done == seen[-1]
    assert done.tokens >= 2_000
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    weights = from_files(written, read_format(CHECKPOINT))
    assert all(tensor.isfinite().all() for tensor in weights.values())
    assert meta_of(written).tokens == done.tokens
    assert META_FILE in written


def test_the_shipped_drafter_fits_the_shipped_policy() -> None:
    from countdown.settings import DRAFTER

    tensors = load_file(DRAFTER / WEIGHTS_FILE)
    assert all(tensor.dtype == torch.bfloat16 for tensor in tensors.values())
    from_files({path.name: path.read_bytes() for path in DRAFTER.iterdir()}, read_format(CHECKPOINT))
