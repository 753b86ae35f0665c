"""The browser in which pages are tested, measured and photographed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from tlt_common.errors import ConfigError

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
VARIABLE: Final = "TLT_CHROMIUM"
ARGUMENTS: Final = ("--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars")
"""Containers forbid the sandbox's namespaces, and give shared memory too little room."""


def chromium() -> Path:
    """
    Return the path of Chromium.

    Raises:
        ConfigError: There is none.
    """
    found = os.environ.get(VARIABLE) or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None or not Path(found).is_file():
        raise ConfigError(
            f"no Chromium was found: install chromium, or set {VARIABLE} to its path; looked in PATH for "
            f"{', '.join(NAMES)}",
            field="TLT_CHROMIUM",
        )
    return Path(found)


@contextmanager
def browsing() -> Iterator[Browser]:
    """
    Run a browser without a window.

    Raises:
        ConfigError: There is none.
    """
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()
