"""`tlt engine check`, as the init container of a worker's pod types it."""

import subprocess
import sys
from pathlib import Path

from tests.unit.tlt_worker.model.tiny import change, write


def check(model: Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "tlt_common.cli", "engine", "check", "--set", f"model={model}"]
    return subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)


def test_a_model_that_is_run_passes_and_another_one_fails_with_one_line(tmp_path: Path) -> None:
    done = check(write(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    change(tmp_path, quantization_config={"quant_method": "awq"})
    done = check(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tlt: model: it is quantized (awq); accepted: ")
    assert done.stderr.count("\n") == 1
