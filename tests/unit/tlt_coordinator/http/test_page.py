"""The page's files, as they are: small, without foreign parts, and without ways to make markup of data."""

import re
from pathlib import Path

import pytest

from tlt_common.domain.fleet import WorkerState

FOLDER = Path(__file__).parents[4] / "services/tlt_coordinator/http/page"
FILES = sorted(FOLDER.iterdir())
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
EMBEDDED = ("raster.js", "timeline.js")
"""What the demo's report inlines: it has no network, and no other module."""
MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc|DOMParser")
MAX_LINES = 300
MAX_BYTES = 120_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_is_short_and_needs_nothing_from_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_LINES
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`]*", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of a namespace


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_make_no_markup_of_data(path: Path) -> None:
    assert not MARKUP.search(path.read_text(encoding="utf-8"))


def test_the_policy_lets_everything_run() -> None:
    index = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", index)


def test_modules_are_fetched_at_once_rather_than_one_after_another() -> None:
    index = (FOLDER / "index.html").read_text(encoding="utf-8")
    named = re.findall(r'(?:modulepreload" href|module" src)="page/([\w.]+)"', index)
    assert sorted(named) == [path.name for path in SCRIPTS]


def test_the_page_is_light() -> None:
    assert sum(path.stat().st_size for path in FILES) < MAX_BYTES


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_renderer_imports_nothing_of_the_page(name: str) -> None:
    imported = set(re.findall(r'from "\./([\w.]+)"', (FOLDER / name).read_text(encoding="utf-8")))
    assert imported <= set(EMBEDDED)


@pytest.mark.parametrize("state", WorkerState)
def test_every_state_has_a_color_a_pattern_and_a_meaning(state: WorkerState) -> None:
    assert len(re.findall(rf"--{state.value}: #[0-9a-f]{{6}};", (FOLDER / "style.css").read_text())) == 2
    assert re.search(rf"^  {state.value}: \(.*\) =>", (FOLDER / "raster.js").read_text(), re.MULTILINE)
    words = (FOLDER / "words.js").read_text()
    assert f'"{state.value}"' in words
    assert re.search(rf'^  {state.value}: "', words, re.MULTILINE)
