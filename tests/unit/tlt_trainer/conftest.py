"""One tiny policy for all tests, and trainers of it."""

from pathlib import Path

import pytest
import torch

from tests.unit.tlt_trainer.fleet_trainer import Trainer
from tests.unit.tlt_trainer.inline import FakeFleet
from tests.unit.tlt_trainer.tiny import TinyPolicy, tiny_policy
from tests.unit.tlt_trainer.virtual_trainer import Bench


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> TinyPolicy:
    torch.set_num_threads(1)
    return tiny_policy(tmp_path_factory.mktemp("policy"))


@pytest.fixture
def bench(policy: TinyPolicy) -> Bench:
    return Bench(policy)


@pytest.fixture
def fleet() -> FakeFleet:
    return FakeFleet()


@pytest.fixture
def one(policy: TinyPolicy, fleet: FakeFleet, tmp_path: Path) -> Trainer:
    return Trainer(policy, fleet, tmp_path, "one")


@pytest.fixture
def two(policy: TinyPolicy, fleet: FakeFleet, tmp_path: Path) -> Trainer:
    return Trainer(policy, fleet, tmp_path, "two")
