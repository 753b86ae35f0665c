"""One engine per scene and loop; several tests examine the result of one run."""

import pytest

from tests.engine import host
from tests.loops import Loop


@pytest.fixture(scope="module")
def play(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> host.Play:
    def run(scene: host.Scene[host.T]) -> host.T:
        return host.play(scene, tmp_path_factory.mktemp(scene.__name__), loop.variables)

    return run
