"""Environments for machines without a network: packed, copied, unpacked and checked."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("xz") is None, reason="needs xz, with which packages are compressed")
OFFLINE = Path(__file__).parents[2] / "deploy/offline"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def site(directory: Path) -> Path:
    """Write a site-packages with stand-ins for what is checked after unpacking, and a program."""
    modules = {
        "torch/__init__.py": "from types import SimpleNamespace\n__version__ = '1'\n"
        "cuda = SimpleNamespace(is_available=lambda: False)\n",
        "torch/include/header.h": "",
        "sglang/__init__.py": "__version__ = '2'\n",
        "tlt_suite/__init__.py": "",
        "tlt_worker/hardware/cuda.py": "def gpus():\n    return []\n",
        "said/__init__.py": "def main():\n    print('said')\n",
        "said-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: said\nVersion: 1\n",
        "said-1.dist-info/entry_points.txt": "[console_scripts]\nsay = said:main\n",
        "nvidia/libs": "",
    }
    for name, text in modules.items():
        (path := directory / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (directory / "said/noise").write_bytes(os.urandom(3 << 20))  # cannot be compressed: several parts
    os.link(directory / "said/noise", directory / "said/twin")
    return directory


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(OFFLINE / program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("offline")
    options = ("--python", PYTHON, "--part-mib", 1, "--site", site(base / "site"), "--without", "development")
    done = run("pack.py", base / "parts", *options)
    assert done.returncode == 0, done.stderr
    assert "MiB" in done.stdout
    return base / "parts"


@pytest.fixture
def parts(packed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(packed, tmp_path / "parts"))


def test_what_was_packed_runs_where_it_is_unpacked(parts: Path, tmp_path: Path) -> None:
    assert len(list(parts.glob("part-*"))) > 1
    assert all(path.stat().st_size <= 1 << 20 for path in parts.glob("part-*"))
    done = subprocess.run(
        [sys.executable, parts / "unpack.py", tmp_path / "to"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "torch 1, sglang 2" in done.stdout
    environment = tmp_path / "to/.venv"
    said = subprocess.run([environment / "bin/say"], capture_output=True, text=True, check=True)
    assert said.stdout == "said\n"
    packages = environment / f"lib/python{PYTHON}/site-packages"
    assert (packages / "said/twin").read_bytes() == (packages / "said/noise").read_bytes()
    assert not (packages / "torch/include").exists()
    # `make` finds its environment complete: it would otherwise look for a package index.
    dry = subprocess.run(
        ["make", "-n", "gpu"], cwd=tmp_path / "to", capture_output=True, text=True, timeout=60, check=True
    )
    assert "uv" not in dry.stdout
    assert "tlt bench gpu" in dry.stdout


def test_a_part_that_is_missing_or_damaged_is_named_before_anything_is_written(parts: Path, tmp_path: Path) -> None:
    second = parts / "part-001"
    content = second.read_bytes()
    second.unlink()
    done = run("unpack.py", tmp_path / "to", "--parts", parts)
    assert done.returncode
    assert "part-001 is missing" in done.stderr
    second.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    done = run("unpack.py", tmp_path / "to", "--parts", parts)
    assert done.returncode
    assert "part-001 is damaged" in done.stderr
    assert not (tmp_path / "to").exists()


def test_another_python_is_refused_by_name(parts: Path, tmp_path: Path) -> None:
    manifest = parts / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "python": "3.99"}))
    done = run("unpack.py", tmp_path / "to", "--parts", parts)
    assert done.returncode
    assert "run it with python3.99" in done.stderr


def test_without_parts_and_into_a_full_directory_nothing_is_unpacked(parts: Path, tmp_path: Path) -> None:
    assert "cannot be read" in run("unpack.py", tmp_path / "to", "--parts", tmp_path / "absent").stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("")
    assert "accepted: a new or empty directory" in run("unpack.py", tmp_path / "full", "--parts", parts).stderr
    assert "accepted: a new or empty directory" in run("pack.py", tmp_path / "full").stderr
    assert "accepted: 1 or more" in run("pack.py", tmp_path / "new", "--part-mib", 0).stderr


def test_cuda_libraries_that_were_left_out_are_this_machines_or_missed_by_name(tmp_path: Path) -> None:
    options = ("--python", PYTHON, "--site", site(tmp_path / "site"), "--without", "cuda")
    assert run("pack.py", tmp_path / "parts", *options).returncode == 0
    code = "import sys, runpy; sys.path = [p for p in sys.path if 'packages' not in p]; sys.argv = sys.argv[1:]"
    bare = [sys.executable, "-S", "-c", f"{code}; runpy.run_path(sys.argv[0], run_name='__main__')"]
    done = subprocess.run(
        [*bare, OFFLINE / "unpack.py", tmp_path / "to", "--parts", tmp_path / "parts"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    has_nvidia = any((Path(path) / "nvidia").is_dir() for path in sys.path)
    if done.returncode:
        assert "has no package nvidia" in done.stderr
    else:
        assert has_nvidia
        assert (tmp_path / f"to/.venv/lib/python{PYTHON}/site-packages/nvidia").is_symlink()
