"""`tlt fetch`, as the init container of a worker's pod types it."""

import subprocess
import sys
from pathlib import Path


def tlt_fetch(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "tlt_common.cli", "fetch", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)


def test_a_checkpoint_is_copied(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "model"
    source.mkdir()
    (source / "model.safetensors").write_bytes(b"weights")
    done = tlt_fetch(source.as_uri(), target)
    assert (done.returncode, done.stdout) == (0, f"{target} contains 1 files\n")
    assert (target / "model.safetensors").read_bytes() == b"weights"


def test_what_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    done = tlt_fetch(tmp_path.as_uri(), tmp_path / "model")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tlt: {tmp_path.as_uri()} contains no *.safetensors\n"
