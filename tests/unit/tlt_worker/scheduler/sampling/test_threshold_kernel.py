"""The Triton kernel finds the thresholds that the torch form finds, and compiles for the GPUs it is for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile  # noqa: A004 - Triton's name

from tlt_worker.scheduler.sampling import threshold_kernel


def test_it_finds_the_same() -> None:
    # Triton interprets kernels on a CPU if it is told so before it is first imported.
    cases = Path(__file__).with_name("threshold_cases.py")
    done = subprocess.run(
        [sys.executable, str(cases)],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == {"cases": 27, "different": []}


@pytest.mark.parametrize("capability", [80, 89, 90, 100])
def test_it_compiles(capability: int) -> None:
    """To machine code: Triton brings NVIDIA's assembler, and needs no device for it."""
    types = {"probs": "*fp32", "most": "*i32", "mass": "*fp64", "low_of": "*i32", "size": "i32", "BLOCK": "constexpr"}
    source = ASTSource(threshold_kernel._bisect, types, {"BLOCK": threshold_kernel.BLOCK})
    made = compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 8})
    assert made.asm["cubin"]
