import asyncio
import os

import pytest
from hypothesis import settings

from tests.loops import Loop

# Servers under test listen on this machine, which the machine's proxy does not know.
for _name in ("no_proxy", "NO_PROXY"):
    os.environ[_name] = ",".join(filter(None, (os.environ.get(_name), "127.0.0.1,localhost,::1")))

# No deadline: the machine may be busy. pytest-timeout ends tests that hang.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

# pytest-asyncio gets the current event loop before it creates a test's own. If none was ever set, asyncio creates one
# that is never closed.
asyncio.set_event_loop(None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--loop", choices=tuple(Loop), action="append", help="Scheduler loop of engines; default: every loop in turn."
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "loop" in metafunc.fixturenames:
        loops = metafunc.config.getoption("--loop") or Loop
        metafunc.parametrize("loop", map(Loop, loops), ids=str, scope="session", indirect=True)


@pytest.fixture(scope="session")
def loop(request: pytest.FixtureRequest) -> Loop:
    """Return the scheduler loop that engines run."""
    chosen: Loop = request.param
    return chosen
