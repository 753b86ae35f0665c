"""The Triton kernels keep and draw the tokens of the torch forms, and compile for the GPUs they are for."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile  # noqa: A004 - Triton's name

from tlt_worker.scheduler.sampling import accept_kernels, kernels

ROW = {"size": "i32", "BLOCK": "constexpr"}
PARTS = {"size": "i32", "parts": "i32", "PARTS": "constexpr"}
BEST = {"seeds": "*i64", "scores": "*fp32", "places": "*i32"}
TYPES: dict[Any, dict[str, str]] = {
    kernels.truncate_row: {"probs": "*fp32", "top_ks": "*i32", "top_ps": "*fp32", "min_ps": "*fp32", "cut": "*fp32"},
    kernels.draw_row: {"weights": "*fp32", "coins": "*fp32", "tokens": "*i64"},
    kernels.score_part: {"probs": "*fp32", "positions": "*i64", **BEST},
    kernels.take_best: {"tokens": "*i64", **BEST},
}

WRITTEN = {"predicts": "*i32", "accept_index": "*i32", "kept_drafts": "*i32", "candidates": "*i64", "index": "*i64"}
CHAIN = {
    **WRITTEN, "coins": "*fp32", "last_coins": "*fp32", "target": "*fp32", "draft": "*fp32", "seeds": "*i64",
    "said": "*i64", "size": "i32", "nodes": "i32", "row_stride": "i32", "node_stride": "i32",
    "NODES": "constexpr", "SEEDED": "constexpr", "BLOCK": "constexpr",
}  # fmt: skip
TREE = {**WRITTEN, "child_of": "*i64", "sibling_of": "*i64", "said": "*i64", "nodes": "i32", "depth": "i32"}


def test_they_keep_and_draw_the_same() -> None:
    # Triton interprets kernels on a CPU if it is told so before it is first imported.
    cases = Path(__file__).with_name("kernel_cases.py")
    done = subprocess.run(
        [sys.executable, str(cases)],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == {"cases": 69, "different": []}


@pytest.mark.parametrize("capability", [80, 90, 100])
@pytest.mark.parametrize("kernel", TYPES, ids=lambda kernel: str(kernel.fn.__name__))
def test_they_compile(kernel: Any, capability: int) -> None:
    """To machine code: Triton brings NVIDIA's assembler, and needs no device for it."""
    is_last = kernel is kernels.take_best
    types = {**TYPES[kernel], **(PARTS if is_last else ROW)}
    source = ASTSource(kernel, types, {"PARTS": 64} if is_last else {"BLOCK": kernels.BLOCK})
    options = {"num_warps": kernels.WARPS, "enable_fp_fusion": kernel is not kernels.score_part}
    made = compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    assert made.asm["cubin"]
    if kernel is kernels.score_part:
        assert "fma" not in made.asm["ptx"]
        assert "approx" not in made.asm["ptx"]
        assert "div.full" not in made.asm["ptx"]


@pytest.mark.parametrize("capability", [80, 90, 100])
@pytest.mark.parametrize("seeded", [False, True])
def test_acceptance_of_chains_compiles(capability: int, seeded: bool) -> None:
    source = ASTSource(accept_kernels.accept_row, CHAIN, {"NODES": 8, "SEEDED": seeded, "BLOCK": kernels.BLOCK})
    options = {"num_warps": kernels.WARPS, "enable_fp_fusion": False}
    made = compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    assert made.asm["cubin"]
    assert "fma" not in made.asm["ptx"]


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_following_trees_compiles(capability: int) -> None:
    source = ASTSource(accept_kernels.follow_row, {**TREE, "DEPTH": "constexpr"}, {"DEPTH": 16})
    made = compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 1})
    assert made.asm["cubin"]
