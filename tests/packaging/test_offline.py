"""The commands of docs/gpu.md for machines without a network."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from uv import find_uv_bin

from tests.packaging.conftest import ROOT

BLOCK = re.search(r"## Machines without a network.*?```bash\n(.*?)```", (ROOT / "docs/gpu.md").read_text(), re.DOTALL)
CLOSED = "http://127.0.0.1:9"
"""The discard port, on which nothing listens."""


def test_with_the_documented_variables_pip_and_the_installation_ask_no_index(tmp_path: Path) -> None:
    """One wheel instead of all of them: the installation begins, and misses what it needs."""
    assert BLOCK
    exported = [line for line in BLOCK[1].splitlines() if line.startswith("export ")]
    shutil.copytree(ROOT / "deploy", tmp_path / "tlt-suite/deploy", ignore=lambda *_: {"helm", "grafana"})
    (tmp_path / "wheels").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels/typer-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("typer-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: typer\nVersion: 1\n")
        wheel.writestr("typer-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("typer-1.dist-info/RECORD", "")
    commands = (*exported, "python -m pip download -q --no-deps -d found typer", "python deploy/install.py demo")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
    places = (Path(sys.executable).parent, Path(find_uv_bin()).parent, "/usr/bin", "/bin")
    index = {"PIP_INDEX_URL": CLOSED, "UV_INDEX_URL": CLOSED, "UV_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        ["bash", "-ec", "\n".join(commands)], cwd=tmp_path / "tlt-suite", capture_output=True, text=True, timeout=120,
        env={**kept, **index, "PATH": ":".join(map(str, places))}, check=False,
    )  # fmt: skip
    assert (tmp_path / "tlt-suite/found/typer-1-py3-none-any.whl").exists(), done.stderr
    assert "Retrying" not in done.stderr
    assert "install: installing the packages of 'demo'" in done.stderr


def test_what_is_downloaded_builds_the_checkout_and_the_documented_targets_exist() -> None:
    assert BLOCK
    pinned = {line.partition("==")[0] for line in (ROOT / "deploy/constraints.txt").read_text().splitlines()}
    assert {"uv", "hatchling", "editables", "typer"} <= pinned
    targets = re.findall(r"^make (\S+)", BLOCK[1], re.MULTILINE)
    assert targets == ["install", "gpu"]
    subprocess.run(["make", "-n", *targets], cwd=ROOT, check=True, capture_output=True, timeout=60)
