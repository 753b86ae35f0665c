"""A real language model, which is fetched before; without it, every test here is skipped by name."""

import pytest

from tests.engine import host
from tests.loops import Loop
from tests.lossless.conftest import broken_plugin
from tests.real.model import MISSING, MODEL

__all__ = ["broken_plugin"]

SCENE_S = 1500.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if MODEL.is_here:
        return
    for item in items:
        if "tests/real/" in item.path.as_posix():
            item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="module")
def play(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> host.Play:
    def run(scene: host.Scene[host.T]) -> host.T:
        return host.play(scene, tmp_path_factory.mktemp(scene.__name__), loop.variables, within_s=SCENE_S)

    return run
