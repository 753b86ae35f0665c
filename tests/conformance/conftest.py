"""SGLang's own server and the suite, once for all tests, and a report of what was compared."""

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from tests.conformance.servers import both
from tests.conformance.sides import Side, Sides

CALL_S = 120.0
_REPORT = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stock", metavar="URL", help="A running SGLang server to compare with; needs --suite.")
    parser.addoption("--suite", metavar="URL", help="A running gateway with the same model and tokenizer.")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_REPORT] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.section("conformance")
    for line in config.stash[_REPORT]:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> list[str]:
    """Lines that are printed at the end."""
    lines: list[str] = request.config.stash[_REPORT]
    return lines


@pytest.fixture(scope="session")
def sides(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with ExitStack() as parts:
        running = request.config.getoption("--stock"), request.config.getoption("--suite")
        urls = running if all(running) else parts.enter_context(both(tmp_path_factory.mktemp("conformance")))
        made = [Side(url, parts.enter_context(httpx.Client(base_url=url, timeout=CALL_S))) for url in urls]
        yield Sides(*made)
