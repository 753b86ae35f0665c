"""The documentation builds without a warning, and its pages load nothing over the network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from countdown.browser import browsing, chromium
from tlt_common.errors import ConfigError

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(https?:)?//|<link[^>]*rel=["']?stylesheet[^>]*https?://"""
)


def test_the_site_builds_needs_no_network_and_is_searched_from_disk(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": "docs"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(list((ROOT / "docs").rglob("*.md")))
    for page in pages:
        assert not LOADED.search(page.read_text()), page
    try:
        chromium()
    except ConfigError as error:
        pytest.skip(f"search needs a browser: {error.message}")
    with browsing() as browser:
        tab = browser.new_page()
        tab.goto((tmp_path / "site" / "index.html").as_uri())
        tab.locator(".md-search__input").fill("completion in the shell")
        expect(tab.locator(".md-search-result__link").first).to_contain_text("Install", timeout=60_000)
