"""Checks the files of a release."""

import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import yaml
from uv import find_uv_bin

from release.build import LOCK, ROOT, SUMS, version

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)


def problems(out: Path) -> list[str]:
    """Return what is wrong with the files; empty: nothing."""
    found = [*_version_problems(out), *_sbom_problems(out)]
    summed = subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=out, check=False)
    if summed.returncode:
        found.append(f"{SUMS} does not match the files")
    if said := installed_version(out):
        found.append(said)
    return found


def installed_version(out: Path) -> str:
    """Install the wheel into an empty environment; return what is wrong with its `tlt --version`, or nothing."""
    (wheel,) = out.resolve().glob("*.whl")
    with tempfile.TemporaryDirectory() as temporary:
        python = Path(temporary) / "bin/python"
        subprocess.run([find_uv_bin(), "venv", "-q", "--python", sys.executable, temporary], check=True)
        command = [find_uv_bin(), "pip", "install", "-q", "--python", str(python), "-c", str(LOCK), str(wheel)]
        subprocess.run(command, check=True, cwd=temporary)
        said = subprocess.run([python.with_name("tlt"), "--version"], capture_output=True, text=True, check=False)
    return "" if said.stdout == f"tlt {version()}\n" else f"the wheel's `tlt --version` says {said.stdout!r}"


def locked() -> dict[str, set[str]]:
    """Return the versions that are locked, by the normalized name of the package."""
    pins: dict[str, set[str]] = {}
    for name, pin in _PIN.findall(LOCK.read_text()):
        pins.setdefault(normalized(name), set()).add(pin)
    return pins


def normalized(name: str) -> str:
    """Return the name of a package as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _version_problems(out: Path) -> list[str]:
    names = [path.name for path in out.iterdir()]
    found = [f"{name} is not of version {version()}" for name in names if version() not in name and name != SUMS]
    if f"## {version()}" not in (ROOT / "CHANGELOG.md").read_text():
        found.append(f"CHANGELOG.md has no section {version()}")
    if yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] != version():
        found.append("CITATION.cff has another version")
    for archive in out.glob("tlt-[0-9]*.tgz"):
        with tarfile.open(archive) as packed:
            metadata = packed.extractfile("tlt/Chart.yaml")
            assert metadata is not None  # noqa: S101 - it is a file
            chart = yaml.safe_load(metadata)
        if {chart["version"], chart["appVersion"]} != {version()}:
            found.append(f"the chart is of version {chart['version']} for {chart['appVersion']}")
    return found


def _sbom_problems(out: Path) -> list[str]:
    (path,) = out.glob("*.cdx.json")
    listed: dict[str, set[str]] = {}
    for component in json.loads(path.read_text())["components"]:
        listed.setdefault(normalized(component["name"]), set()).add(component.get("version", ""))
    return [
        f"the SBOM lacks {name} {', '.join(pins)}" for name, pins in locked().items() if pins - listed.get(name, set())
    ]
