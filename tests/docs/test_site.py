"""The documentation builds without a warning, and its pages load nothing over the network."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(https?:)?//|<link[^>]*rel=["']?stylesheet[^>]*https?://"""
)


def test_the_site_builds_and_needs_no_network(tmp_path: Path) -> None:
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
