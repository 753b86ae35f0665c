"""A real language model, which is fetched before; without it, every test here is skipped by name."""

import pytest

from tests.engine.conftest import play
from tests.lossless.conftest import broken_plugin
from tests.real.model import MISSING, MODEL

__all__ = ["broken_plugin", "play"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if MODEL.is_here:
        return
    for item in items:
        if "tests/real/" in item.path.as_posix():
            item.add_marker(pytest.mark.skip(reason=MISSING))
