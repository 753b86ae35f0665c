#!/usr/bin/env python3
"""
Unpack what pack.py wrote, and check that it runs here. Needs Python alone, no network and no other package.

    python3.12 unpack.py tlt-suite    # from the directory with the parts, or a copy of this file beside them

Writes a checkout into the new directory, with its environment in .venv: `make gpu` and `make demo` run there as they
are. Parts are compared with the manifest first; a part that is missing or damaged is named.
"""

import argparse
import hashlib
import io
import json
import lzma
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SITE, CHECKOUT = "site-packages", "checkout"
"""Directories inside of the archive."""
MANIFEST = "manifest.json"
BLOCK = 1 << 20
PROGRAMS = """
from importlib.metadata import entry_points
for entry in entry_points(group="console_scripts"):
    print(entry.name, entry.value)
"""
CHECK = """
import torch, sglang, tlt_suite
from tlt_worker.hardware.cuda import gpus
print(f"torch {torch.__version__}, sglang {sglang.__version__}, CUDA", torch.cuda.is_available(), *gpus())
"""


def main() -> None:
    """Unpack and check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("to", type=Path, help="Directory to write; new or empty.")
    parser.add_argument("--parts", type=Path, default=Path(__file__).parent, help="Directory of the parts.")
    args = parser.parse_args()
    if args.to.exists() and (not args.to.is_dir() or any(args.to.iterdir())):
        parser.error(f"{args.to} exists; accepted: a new or empty directory")
    manifest = read_manifest(args.parts)
    require_python(manifest["python"])
    parts = [args.parts / name for name in sorted(manifest["parts"])]
    require_whole(parts, manifest["parts"])
    args.to.mkdir(parents=True, exist_ok=True)
    environment = args.to.resolve() / ".venv"
    venv.create(environment, with_pip=False, symlinks=True)
    site = environment / "lib" / f"python{manifest['python']}" / "site-packages"
    extract(parts, site, args.to)
    if "cuda" in manifest["without"]:
        link_cuda(site)
    write_programs(environment)
    # Newer than what `make` installs them from, so that it does not look for a package index.
    for packages in ("demo", "bench", "test", "docs"):
        (environment / f".installed-{packages}").touch()
    if subprocess.run([environment / "bin/python", "-c", CHECK], cwd=environment, check=False).returncode:
        sys.exit(f"{args.to} does not run here; see above")
    print(f"tlt-suite {manifest['version']} is in {args.to}")


def read_manifest(directory: Path) -> dict[str, Any]:
    """Return the manifest."""
    path = directory / MANIFEST
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"{path} cannot be read: {error}; accepted: the directory that pack.py wrote")
    return found


def require_python(wanted: str) -> None:
    """Exit unless this is the Python that the packages were chosen for."""
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    if mine != wanted:
        sys.exit(f"this is Python {mine}, but the packages are for {wanted}; run it with python{wanted}")


def require_whole(parts: list[Path], sums: dict[str, str]) -> None:
    """Exit unless every part is there and undamaged."""
    for part in parts:
        if not part.is_file():
            sys.exit(f"{part} is missing; the manifest lists {len(parts)} parts")
        digest = hashlib.sha256()
        with part.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
        if digest.hexdigest() != sums[part.name]:
            sys.exit(f"{part} is damaged or incomplete: its SHA-256 is not that of the manifest; copy it again")


class Parts(io.RawIOBase):
    """Parts as one stream to read from."""

    def __init__(self, parts: list[Path]) -> None:
        self._blocks = self._read_all(parts)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._blocks, b"")
        found, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(found)] = found
        return len(found)

    @staticmethod
    def _read_all(parts: list[Path]) -> Iterator[bytes]:
        for part in parts:
            with part.open("rb") as file:
                while block := file.read(BLOCK):
                    yield block


def extract(parts: list[Path], site: Path, checkout: Path) -> None:
    """Extract both directories of the archive."""
    homes = {SITE: site, CHECKOUT: checkout}
    with lzma.open(io.BufferedReader(Parts(parts), BLOCK)) as plain, tarfile.open(fileobj=plain, mode="r|") as archive:
        for member in archive:
            home, _, name = member.name.partition("/")
            if name:
                member.name = name
                archive.extract(member, homes[home], filter="tar")


def link_cuda(site: Path) -> None:
    """Let torch find the CUDA libraries of this machine's own installation, by the path at which it looks for them."""
    found = [
        Path(path) / "nvidia" for path in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path}
    ]
    for path in found:
        if path.is_dir():
            (site / "nvidia").symlink_to(path)
            return
    sys.exit("the parts are without CUDA libraries, and this Python has no package nvidia; pack without --without cuda")


def write_programs(environment: Path) -> None:
    """Write the programs of packages, which were made for another path, anew."""
    python = environment / "bin/python"
    listed = subprocess.run([python, "-c", PROGRAMS], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        name, _, value = line.partition(" ")
        module, _, function = value.partition(" ")[0].partition(":")
        program = environment / "bin" / name
        if program.exists() or not function:
            continue
        program.write_text(
            f"#!{python}\nimport sys\nfrom {module} import {function.split('.')[0]}\nsys.exit({function}())\n"
        )
        program.chmod(0o755)


if __name__ == "__main__":
    main()
