"""One engine per scene; several tests examine the result of one run."""

import pytest

from tests.engine import host


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> host.Play:
    def run(scene: host.Scene[host.T]) -> host.T:
        return host.play(scene, tmp_path_factory.mktemp(scene.__name__))

    return run
