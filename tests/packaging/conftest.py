"""The distribution as `uv build` makes it, installed into environments of its own."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from uv import find_uv_bin

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    wheel: Path
    """Built from the tree."""
    sdist: Path
    wheel_of_sdist: Path


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment outside the tree, so that nothing is imported from the checkout."""

    path: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment; the caller judges its exit code."""
        return subprocess.run(
            [self.path / "bin" / command[0], *command[1:]],
            cwd=self.path,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def python(self, code: str) -> str:
        """Run Python code; return what it prints."""
        done = self.run("python", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="session")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([find_uv_bin(), "build", "-q", "--wheel", "--out-dir", out / "tree", ROOT], check=True)
    # the wheel from the sdist
    subprocess.run([find_uv_bin(), "build", "-q", "--out-dir", out / "both", ROOT], check=True)
    (wheel,) = (out / "tree").glob("*.whl")
    (sdist,) = (out / "both").glob("*.tar.gz")
    (wheel_of_sdist,) = (out / "both").glob("*.whl")
    return Distribution(wheel=wheel, sdist=sdist, wheel_of_sdist=wheel_of_sdist)


def _installed(path: Path, requirement: str) -> Environment:
    subprocess.run([find_uv_bin(), "venv", "-q", "--python", sys.executable, path], check=True)
    constraints = ROOT / "deploy/constraints.txt"
    subprocess.run(
        [find_uv_bin(), "pip", "install", "-q", "--python", path / "bin/python", "-c", constraints, requirement],
        check=True,
        cwd=path,
    )
    return Environment(path)


@pytest.fixture(scope="session")
def bare(distribution: Distribution, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The distribution without an extra."""
    return _installed(tmp_path_factory.mktemp("bare"), f"tlt-suite @ {distribution.wheel.as_uri()}")


@pytest.fixture(scope="session")
def client(distribution: Distribution, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """What a trainer's environment gets."""
    return _installed(tmp_path_factory.mktemp("client"), f"tlt-suite[client] @ {distribution.wheel.as_uri()}")
