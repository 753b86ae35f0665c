from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def logging_unconfigured() -> Iterator[None]:
    """Begin each test without a configuration of logging, and leave none to the next."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
