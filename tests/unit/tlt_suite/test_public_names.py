"""What users import is `tlt_suite`, and nothing that is written for them imports anything else."""

import importlib
import re
from pathlib import Path

import pytest

import tlt_suite

ROOT = Path(__file__).parents[3]
MODULES = sorted(path.stem for path in Path(tlt_suite.__file__).parent.glob("*.py") if path.stem != "__init__")
IMPORT = re.compile(r"^\s*(?:# )?(?:from|import) (tlt_(?:common|gateway|worker|trainer|local)[\w.]*)", re.MULTILINE)
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
    *sorted((ROOT / "demos").glob("*/README.md")),
]
EXAMPLES = sorted((ROOT / "examples").glob("*/*.py"))
"""All but the demo, a package of its own."""


@pytest.mark.parametrize("module", ["", *MODULES])
def test_every_public_name_exists_and_is_documented(module: str) -> None:
    if module == "verl":
        pytest.importorskip("verl")
    found = importlib.import_module(f"tlt_suite.{module}" if module else "tlt_suite")
    assert found.__doc__
    for name in found.__all__:
        value = getattr(found, name)
        assert isinstance(value, str) or value.__doc__, name


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=lambda path: str(path.relative_to(ROOT)))
def test_what_users_read_imports_public_names_only(page: Path) -> None:
    assert not IMPORT.findall(page.read_text())


def test_the_readme_says_which_names_are_public() -> None:
    assert "`tlt_suite` and its modules are the public names" in (ROOT / "README.md").read_text()
