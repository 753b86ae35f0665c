"""README and site: short, reachable, for somebody in particular, and in sentences that need no second reading."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.docs.test_pages import FENCE, LINK, ROOT
from theme.home import content, on_page_markdown

README = (ROOT / "README.md").read_text()
DOCS = sorted(ROOT.glob("docs/**/*.md"))
COLUMN = 92
"""Characters of code that fit the column of the site in a window of 1,300 pixels."""
FOR_WHOM = re.compile(r"^For .+", re.MULTILINE)
REWRITTEN = (
    "runs what there is to run there", "with GPUs of its own, from those in", "what the engines learn about which",
    "as far as they have no URL", "rowd a gateway", "rowds a gateway", "Those of them that were not",
    "nds of such a rest", "ccepted beginnings", "accepted: none", "accepted: at most as many",
    "is no field of this call", "stop strings in vain", "as rarely as that deserves", "make up for it",
    "never asleep", "stands where a trainer", "with the learner in hand", "says no more per second", "belongs into",
    "everything there is to run", "is there twice", "accepted: once", "accepted: each once", "accepted: one, first",
)  # fmt: skip
"""Wordings that were replaced, since a native reader would stop at them."""
TEXT = ("*.md", "*.py", "*.yaml", "*.yml", "*.json", "*.toml", "*.txt", "*.proto", "*.tpl", "Makefile", "Dockerfile")


ROOTS = (
    "", "tlt_common", "deploy/helm/tlt", "services", "services/tlt_gateway", "services/tlt_worker",
    "services/tlt_worker/scheduler", "services/tlt_trainer",
)  # fmt: skip
"""Directories relative to which pages for contributors name modules."""


def nav_pages(entries: list[Any]) -> list[str]:
    """Pages of the navigation, in order."""
    found: list[str] = []
    for entry in entries:
        (value,) = entry.values()
        found += [value] if isinstance(value, str) else nav_pages(value)
    return found


NAV = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]


def linked(page: Path) -> set[Path]:
    """Pages that a page links to, without following code."""
    links = LINK.findall(FENCE.sub("", page.read_text()))
    paths = (link.partition("#")[0] for link in links if not re.match(r"[a-z]+:", link))
    return {(page.parent / path).resolve() for path in paths if path.endswith(".md")}


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 110


def test_its_first_screen_is_one() -> None:
    screen, mark, _ = README.partition("<!-- End of the first screen")
    assert mark
    assert len(screen.splitlines()) <= 40
    assert "not yet measured" in screen
    assert screen.index("make demo-quick") < screen.index("make demo ") < screen.index("tlt up --model")


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_two_clicks_away(page: Path) -> None:
    first = linked(ROOT / "README.md")
    assert page in first | {two for one in first if one.exists() for two in linked(one)}


def test_the_navigation_has_every_page() -> None:
    outside = {"index.md", "contributing.md", "changelog.md", "chart.md"}
    assert sorted(nav_pages(NAV)) == sorted({str(page.relative_to(ROOT / "docs")) for page in DOCS} | outside)
    assert [next(iter(group)) for group in NAV] == [
        "Start", "Use with your trainer", "Operate", "Understand", "Results", "Develop",
    ]  # fmt: skip


@pytest.mark.parametrize("page", [*DOCS, ROOT / "CONTRIBUTING.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_says_for_whom_it_is(page: Path) -> None:
    before, _, _ = page.read_text().partition("\n## ")
    assert FOR_WHOM.search(before)


@pytest.mark.parametrize("page", [*DOCS, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_code_fits_the_column(page: Path) -> None:
    lines = [line for block in FENCE.findall(page.read_text()) for line in block.splitlines()]
    assert not [line for line in lines if len(line) > COLUMN]


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md", "docs/walkthrough-contributor.md"])
def test_modules_that_a_page_names_exist(page: str) -> None:
    named = re.findall(r"`((?:[a-z_0-9]+/)+[\w.]*)`", (ROOT / page).read_text())
    known = [name for name in named if not re.search(r"NAME|_X", name)]
    assert known
    for name in known:
        places = [ROOT / root / name for root in ROOTS]
        assert any(place.exists() or place.with_suffix(".py").exists() for place in places), name


def test_wordings_that_were_replaced_do_not_come_back() -> None:
    listed = subprocess.run(["git", "ls-files", *TEXT], cwd=ROOT, capture_output=True, text=True, check=True)
    found = [
        f"{name}: {words}"
        for name in listed.stdout.split()
        if name not in {"tests/unit/docs/test_front_door.py", "CHANGELOG.md"} and (ROOT / name).exists()
        for text in [(ROOT / name).read_text()]
        for words in REWRITTEN
        if words in re.sub(r"\s+", " ", text)
    ]
    assert not found


class File:
    """A page of the site, as MkDocs hands it to hooks."""

    def __init__(self, name: str) -> None:
        self.src_uri = name


class Page:
    """The same, with its file and metadata."""

    def __init__(self, name: str) -> None:
        self.file, self.meta = File(name), dict[str, Any]()


@pytest.mark.parametrize(
    ("page", "text", "shown"),
    [
        (
            "index.md",
            "[a](docs/how-it-works.md) [b](examples/README.md)",
            "[a](how-it-works.md) [b](../examples/README.md)",
        ),
        ("contributing.md", "[a](docs/http.md#endpoints)", "[a](http.md#endpoints)"),
        ("results/cpu.md", "[a](../../CONTRIBUTING.md) [b](../tuner.md)", "[a](../contributing.md) [b](../tuner.md)"),
        ("chart.md", "[a](../../../docs/kubernetes.md)", "[a](kubernetes.md)"),
        ("http.md", "[a](https://example.org) [b](#stop-strings)", "[a](https://example.org) [b](#stop-strings)"),
        ("configuration.md", "| `a` | `int \\| null` |", "| `a` | `int | null` |"),
    ],
)
def test_links_and_tables_are_those_of_the_site(page: str, text: str, shown: str) -> None:
    assert on_page_markdown(text, page=Page(page)) == shown


def test_the_home_page_is_the_first_screen_of_the_readme() -> None:
    assert content("index.md") == README.partition("<!-- End of the first screen")[0]
