"""
An MkDocs hook: pages of the site whose source lies outside docs/, and what GitHub's Markdown writes differently.

The home page is the first screen of README.md.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "chart.md": "deploy/helm/tlt/README.md",
}
"""Source of each page, relative to the repository."""
WIDE = {"chart.md", "gpu-memory.md", "trainers.md"}
"""Pages whose tables take the room of the table of contents."""
END = "<!-- End of the first screen"
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s]+)\)")


def content(page: str) -> str:
    """Return the Markdown of one of these pages, as its source has it."""
    return (ROOT / PAGES[page]).read_text().partition(END)[0]


def on_files(files: Files, /, *, config: Any, **_: Any) -> Files:
    """Add the pages."""
    for page in PAGES:
        files.append(File.generated(config, page, content=content(page)))
    return files


def on_page_markdown(text: str, /, *, page: Any, **_: Any) -> str:
    """Make links lead to the pages of the site, or out of docs/, and pipes in the code of tables plain."""
    name = page.file.src_uri
    if name in WIDE:
        page.meta["hide"] = ["toc"]
    source = PAGES.get(name, f"docs/{name}")
    text = LINK.sub(lambda link: f"]({_moved(link[1], source, name)})", text)
    return "\n".join(_without_escapes(line) if line.startswith("|") else line for line in text.split("\n"))


def _without_escapes(row: str) -> str:
    return CODE.sub(lambda code: code[0].replace("\\|", "|"), row)


def _moved(link: str, source: str, page: str) -> str:
    path, mark, anchor = link.partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    of_page = {found: f"docs/{name}" for name, found in PAGES.items()}
    return posixpath.relpath(of_page.get(target, target), posixpath.dirname(f"docs/{page}")) + mark + anchor
