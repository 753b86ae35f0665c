"""One tiny policy for all tests."""

import pytest
import torch

from tests.unit.tlt_trainer.tiny import TinyPolicy, tiny_policy


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> TinyPolicy:
    torch.set_num_threads(1)
    return tiny_policy(tmp_path_factory.mktemp("policy"))
