"""Tiny policies for all tests."""

import pytest
import torch

from tests.unit.tlt_trainer.tiny import TinyPolicy, for_eagle3, tiny_policy


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> TinyPolicy:
    torch.set_num_threads(1)
    return tiny_policy(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="session")
def deep_policy(tmp_path_factory: pytest.TempPathFactory) -> TinyPolicy:
    """A policy with layers to read, for EAGLE-3 drafters."""
    torch.set_num_threads(1)
    return for_eagle3(tiny_policy(tmp_path_factory.mktemp("deep"), layers=4))
