"""Tiny policies for all tests, and trainers of one."""

from pathlib import Path

import pytest
import torch

from tests.unit.tlt_trainer.fleet_trainer import Trainer
from tests.unit.tlt_trainer.inline import FakeFleet
from tests.unit.tlt_trainer.tiny import TinyPolicy, for_eagle3, tiny_policy
from tests.unit.tlt_trainer.virtual_trainer import Bench


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> TinyPolicy:
    torch.set_num_threads(1)
    return tiny_policy(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="session")
def deep_policy(tmp_path_factory: pytest.TempPathFactory) -> TinyPolicy:
    """A policy with layers to read, for EAGLE-3 drafters."""
    torch.set_num_threads(1)
    return for_eagle3(tiny_policy(tmp_path_factory.mktemp("deep"), layers=4))


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
