"""Generated pages are up to date, and every relative link of the documentation leads somewhere."""

import re
import tomllib
from pathlib import Path

import pytest

from reference import configuration
from reference.outside import on_page_markdown
from reference.write import stale

ROOT = Path(__file__).parents[3]
PAGES = [
    path
    for pattern in ("*.md", "docs/**/*.md", "deploy/helm/tlt/**/*.md", "examples/**/*.md", "benchmarks/**/*.md")
    for path in sorted(ROOT.glob(pattern))
]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub and MkDocs both make them."""
    titles = HEADING.findall(FENCE.sub("", page.read_text()))
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def test_generated_pages_are_up_to_date() -> None:
    names = [path.name for path in stale(ROOT / "docs")]
    assert not names, f"docs/{', docs/'.join(names)} differ from the code; run: make generate"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.relative_to(ROOT)}: {link}"
        assert target.is_relative_to(ROOT)
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.relative_to(ROOT)}: {link}"


def test_the_configuration_page_has_every_service() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(configuration.SERVICES) == set(project["entry-points"]["tlt.services"])


def test_a_link_out_of_the_site_becomes_a_path() -> None:
    class File:
        src_uri = "results/cpu.md"

    class Page:
        file = File

    text = "[chart](../../deploy/helm/tlt), [page](../tuner.md)"
    assert on_page_markdown(text, page=Page) == "chart (`deploy/helm/tlt`), [page](../tuner.md)"
