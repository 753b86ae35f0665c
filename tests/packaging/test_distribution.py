"""What is published: production code and nothing else, in a wheel that the source distribution gives as well."""

import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, Distribution

MIB = 1 << 20
PAGE = Path("tlt_coordinator/http/page")
REPORT = {Path("tlt_coordinator/http/embedded.js"), Path("tlt_simulator/report/page/style.css")}
"""Parts of the pages that reports are written as."""
CODE = {
    "tlt_suite", "tlt_common", "tlt_gateway", "tlt_worker", "tlt_cache", "tlt_trainer", "tlt_tuner", "tlt_coordinator",
    "tlt_local", "tlt_simulator",
}  # fmt: skip


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def test_the_wheel_is_small(distribution: Distribution, capsys: pytest.CaptureFixture[str]) -> None:
    size = distribution.wheel.stat().st_size
    with capsys.disabled():
        print(f"\nwheel {size / MIB:.2f} MiB, sdist {distribution.sdist.stat().st_size / MIB:.2f} MiB")
    assert size < 1.5 * MIB  # 2.7 MiB of Python, compressed: what weights or pages of a demo would exceed


def test_the_wheel_holds_production_code_only(distribution: Distribution) -> None:
    names = [Path(name) for name in contents(distribution.wheel) if ".dist-info/" not in name]
    assert {name.parts[0] for name in names} == CODE
    page = {name for name in names if name.parent == PAGE}
    assert {name.name for name in page} == {path.name for path in (ROOT / "services" / PAGE).iterdir()}
    assert {name.suffix for name in page} == {".html", ".js", ".css"}
    others = {name for name in set(names) - page - REPORT if name.suffix not in {".py", ".pyi", ".typed"}}
    assert not others
    assert not any("test" in part or "demo" in part or "dashboard" in part for name in names for part in name.parts)


def test_the_source_distribution_holds_no_demo_and_gives_the_same_wheel(distribution: Distribution) -> None:
    with tarfile.open(distribution.sdist) as archive:
        names = {Path(*Path(name).parts[1:]) for name in archive.getnames()}
    assert {name.parts[0] for name in names if len(name.parts) > 1} == {"tlt_suite", "tlt_common", "services", "proto"}
    assert contents(distribution.wheel_of_sdist) == contents(distribution.wheel)
