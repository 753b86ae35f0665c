"""Builds the files of a release."""

import hashlib
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

from uv import find_uv_bin

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/tlt"
LOCK = ROOT / "deploy/constraints.txt"
SBOM_TOOL = "cyclonedx-bom==7.5.0"
SUMS = "SHA256SUMS"
KUBE = Path(os.environ.get("KUBE_BIN", Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tlt/kube"))
"""Where tests/cluster/kube/build.sh puts helm."""


class Skipped(Exception):  # noqa: N818 - it is none
    """A file is not built here; the message names it and says why."""


def version() -> str:
    """Return the project's version."""
    declared: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return declared


def distributions(out: Path) -> None:
    """Build wheel and source distribution."""
    subprocess.run([find_uv_bin(), "build", "-q", "--out-dir", out, ROOT], check=True)
    (out / ".gitignore").unlink(missing_ok=True)  # of uv


def helm() -> str:
    """
    Return the helm program.

    Raises:
        Skipped: There is none.
    """
    if found := shutil.which("helm") or shutil.which("helm", path=str(KUBE)):
        return found
    raise Skipped("chart: helm is not installed; tests/cluster/kube/build.sh chart builds it")


def chart(out: Path) -> None:
    """
    Package the Helm chart.

    Raises:
        Skipped: There is no helm.
    """
    subprocess.run([helm(), "package", CHART, "--destination", out], check=True, stdout=subprocess.DEVNULL)


def image(out: Path, target: str) -> None:
    """
    Build one image into an OCI archive.

    Raises:
        Skipped: Its tools are missing.
    """
    if missing := [tool for tool in ("buildah", "mmdebstrap") if shutil.which(tool) is None]:
        raise Skipped(f"image {target}: {' and '.join(missing)} not installed")
    if os.geteuid():
        raise Skipped(f"image {target}: buildah needs root here")
    archive = out / f"tlt-{version()}-{target}.tar"
    subprocess.run([ROOT / "deploy/image/build", target], check=True, env={**os.environ, "OUT": str(archive)})


def sbom(out: Path) -> None:
    """Write the bill of materials, in CycloneDX: everything that deploy/constraints.txt locks."""
    target = out / f"tlt-suite-{version()}.cdx.json"
    tool = [find_uv_bin(), "tool", "run", "-q", "--from", SBOM_TOOL, "cyclonedx-py"]
    options = ["--output-reproducible", "--pyproject", str(ROOT / "pyproject.toml"), "--output-file", str(target)]
    subprocess.run([*tool, "requirements", *options, str(LOCK)], check=True, stderr=subprocess.DEVNULL)


def checksums(out: Path) -> None:
    """Write the SHA-256 of every file, as `sha256sum --check` reads them."""
    names = sorted(path.name for path in out.iterdir() if path.name != SUMS)
    lines = [f"{hashlib.sha256((out / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (out / SUMS).write_text("".join(lines))
