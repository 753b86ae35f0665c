"""The images that `deploy/image/build` made, unpacked once."""

import os
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.container import Image, unpack

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def version() -> str:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


@pytest.fixture(scope="session")
def slim(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    yield from _unpacked("slim", version, tmp_path_factory)


@pytest.fixture(scope="session")
def engine(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    yield from _unpacked("engine", version, tmp_path_factory)


def _unpacked(target: str, version: str, folders: pytest.TempPathFactory) -> Iterator[Image]:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    archive = Path(os.environ.get(f"TLT_IMAGE_{target.upper()}", cache / f"tlt/image/tlt-{version}-{target}.tar"))
    if os.getuid() or not shutil.which("runc") or not archive.exists():
        pytest.skip(f"needs root, runc and the archive that `deploy/image/build {target}` makes")
    root = folders.mktemp(target)
    root.chmod(0o755)  # it is the container's /
    yield unpack(archive, root)
    shutil.rmtree(root)
