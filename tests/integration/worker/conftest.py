import pytest

from tests.fakes.peers import FakeCache, FakeCoordinator, FakeTuner


@pytest.fixture
def coordinator() -> FakeCoordinator:
    return FakeCoordinator()  # type: ignore[abstract] # answers what workers ask, and nothing else


@pytest.fixture
def cache() -> FakeCache:
    return FakeCache()  # type: ignore[abstract] # as above


@pytest.fixture
def tuner() -> FakeTuner:
    return FakeTuner()
