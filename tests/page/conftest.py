"""Chromium, and coordinators with simulated fleets, each in a process of its own."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

from countdown.browser import browsing, chromium
from tlt_bench.page.served_page import ServedPage, serving
from tlt_common.domain.bounds import MAX_NAME
from tlt_common.errors import ConfigError

FleetOf: TypeAlias = Callable[[int], ServedPage]
SIZES = (8, 512, 10_240)
MARKUP = "<img src=x onerror=\"document.title='hacked'\">"
ODD = (MARKUP, "y" * MAX_NAME)
"""Ids that a worker may claim."""
PROBLEM = MARKUP + "z" * 10_000
"""What it may report as its problem."""


def ask(served: ServedPage, path: str) -> Any:
    """Return what the API answers."""
    with urlopen(f"{served.url}api/v1/{path}", timeout=20) as answer:  # noqa: S310 - our own
        return json.load(answer)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        chromium()
    except ConfigError as error:
        pytest.skip(f"needs a browser: {error.message}")
    with browsing() as browser:
        yield browser


@pytest.fixture(scope="session")
def fleet_of() -> Iterator[FleetOf]:
    """Returns the fleet of a size; each is started once."""
    made = dict[int, ServedPage]()
    with ExitStack() as open_:

        def of(workers: int) -> ServedPage:
            if workers not in made:
                odd = [*(f"--odd={name}" for name in ODD), f"--problem={PROBLEM}"] if workers == SIZES[0] else []
                made[workers] = open_.enter_context(serving(workers, *odd))
            return made[workers]

        yield of


@dataclass(kw_only=True)
class Tab:
    """A page in the browser, and what went wrong in it."""

    page: Page
    troubles: list[str] = field(default_factory=list)
    """Uncaught errors, and what the console was told: refusals of the content security policy among it."""
    requested: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()
    """Parts of troubles that a test brings about."""

    def note(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.troubles.append(message.text)

    def open(self, served: ServedPage, view: str) -> Page:
        """Open a view, and wait until it is there."""
        self.page.goto(f"{served.url}#/{view}")
        return self.page

    @property
    def unexpected(self) -> list[str]:
        return [trouble for trouble in self.troubles if not any(part in trouble for part in self.expected)]


def tab_in(context: BrowserContext) -> Tab:
    """Open a page."""
    tab = Tab(page=context.new_page())
    tab.page.set_default_timeout(20_000)
    tab.page.on("console", tab.note)
    tab.page.on("pageerror", lambda error: tab.troubles.append(str(error)))
    tab.page.on("request", lambda request: tab.requested.append(request.url))
    return tab


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    """A page at which nothing goes wrong."""
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        tab = tab_in(context)
        yield tab
        assert tab.unexpected == []
