"""`make release`: what it builds without containers, and that it notices what is wrong."""

import json
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from uv import find_uv_bin

from release import build
from release.check import installed_version, locked, problems
from tests.packaging.conftest import ROOT


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("release")
    build.distributions(out)
    with suppress(build.Skipped):
        build.chart(out)
    build.sbom(out)
    build.checksums(out)
    return out


def test_a_release_is_complete_and_in_order(released: Path) -> None:
    assert problems(released) == []
    names = {path.name for path in released.iterdir()} - {f"tlt-{build.version()}.tgz"}
    assert names == {
        f"tlt_suite-{build.version()}-py3-none-any.whl",
        f"tlt_suite-{build.version()}.tar.gz",
        f"tlt-suite-{build.version()}.cdx.json",
        build.SUMS,
    }


def test_what_is_wrong_is_named(released: Path, tmp_path: Path) -> None:
    for path in released.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (sbom,) = tmp_path.glob("*.cdx.json")
    listed = json.loads(sbom.read_text())
    first = listed["components"].pop(0)
    sbom.write_text(json.dumps(listed))
    (tmp_path / "tlt_suite-0.0.9.tar.gz").touch()
    found = problems(tmp_path)
    assert f"the SBOM lacks {first['name']} {first['version']}" in found
    assert "tlt_suite-0.0.9.tar.gz is not of version " + build.version() in found
    assert "SHA256SUMS does not match the files" in found


def test_the_version_is_stated_once(released: Path) -> None:
    assert installed_version(released) == ""
    examples = ("demos/countdown/pyproject.toml", "demos/word_problems/pyproject.toml")
    others = ("tlt_common/__init__.py", "benchmarks/pyproject.toml", *examples)
    assert not [name for name in others if build.version() in (ROOT / name).read_text()]


def test_every_locked_package_has_a_version() -> None:
    assert {"torch", "grpcio", "sglang"} <= locked().keys()


def test_the_changelog_of_the_first_release_fits_on_a_page() -> None:
    first = (ROOT / "CHANGELOG.md").read_text().partition("## 0.1.0\n")[2]
    assert 0 < len(first.splitlines()) <= 50


def test_an_image_without_its_tools_is_skipped_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.Skipped, match="image slim: buildah and mmdebstrap not installed"):
        build.image(tmp_path, "slim")


def test_the_citation_is_valid(tmp_path: Path) -> None:
    tool = [find_uv_bin(), "tool", "run", "-q", "cffconvert==2.0.0", "--validate", "-i"]
    subprocess.run([*tool, ROOT / "CITATION.cff"], check=True, cwd=tmp_path)
