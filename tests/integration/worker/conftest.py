from pathlib import Path

import pytest

from tests.fakes.peers import FakeCache, FakeCoordinator, FakeTuner
from tests.integration.worker.live_worker import Bench


@pytest.fixture
def coordinator() -> FakeCoordinator:
    return FakeCoordinator()  # type: ignore[abstract] # implements only what workers call


@pytest.fixture
def cache() -> FakeCache:
    return FakeCache()  # type: ignore[abstract] # as above


@pytest.fixture
def tuner() -> FakeTuner:
    return FakeTuner()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
