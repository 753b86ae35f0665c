#!/usr/bin/env python3
"""
Pack the suite and everything it needs into files of limited size, for machines without a network.

    deploy/offline/pack.py OUT --python 3.12 --part-mib 500

Installs the checkout and the locked versions of its dependencies into a temporary directory, for the Python version of
the machine without a network (Linux, x86-64), and writes OUT/part-000 ..., OUT/manifest.json and OUT/unpack.py. There:

    python3.12 OUT/unpack.py tlt-suite

Needs a package index, uv, tar, xz, and 30 GB of disk.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from unpack import CHECKOUT, MANIFEST, SITE  # which stands alone: it is copied to the other machine

ROOT = Path(__file__).resolve().parents[2]
PLATFORM = "x86_64-manylinux_2_34"

GROUPS = {
    "cuda": ("nvidia", "nccl", "cudnn", "nvshmem", "cusparselt"),
    "kernels": (
        "nvidia_cutlass_dsl", "tilelang", "deep_ep", "deep_gemm", "flash_mla", "z3", "cutlass",
        "sgl_kernel/flash_ops*", "sgl_kernel/infllm_ops*", "sgl_kernel/flashmla_ops*", "sgl_kernel/sm100/*",
        "triton/backends/nvidia/bin/ptxas-blackwell", "flashinfer/data/csrc/cake_*", "flashinfer/data/csrc/kda",
        "flashinfer/data/csrc/fused_moe", "flashinfer/fused_moe/backends/cudnn_frost/artifacts",
    ),
    "development": (
        "mypy", "mypyc", "ruff", "kopf", "grpc_tools", "debugpy", "mkdocs", "material", "moto",
        "triton/backends/nvidia/lib/cupti*", "triton/_C/libproton.so", "torch/include", "torch/bin/protoc*",
    ),
}  # fmt: skip
"""What may be left out. cuda: libraries that torch finds in the other machine's own installation. kernels: those that
dense models on one Hopper GPU with Triton's attention do not load. development: what only changes to the code need."""
ALWAYS_OUT = ("*/__pycache__", "*.pyi")

UV = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
"""That of the environment of `make install`, if this runs there."""


def main() -> None:
    """Pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="Directory to write; new or empty.")
    parser.add_argument("--python", default="3.12", help="Python version there, 3.11 to 3.13.")
    parser.add_argument("--part-mib", type=int, default=500, help="Largest size of a part, in MiB.")
    parser.add_argument("--without", choices=GROUPS, nargs="*", default=[], help="Leave out; see GROUPS in this file.")
    parser.add_argument("--site", type=Path, help="Pack this site-packages instead of installing one.")
    args = parser.parse_args()
    if args.part_mib < 1:
        parser.error(f"--part-mib is {args.part_mib}; accepted: 1 or more")
    if args.out.exists() and (not args.out.is_dir() or any(args.out.iterdir())):
        parser.error(f"{args.out} exists; accepted: a new or empty directory")
    if missing := [tool for tool in ("tar", "xz", "git", *(() if args.site else (UV,))) if shutil.which(tool) is None]:
        parser.error(f"not installed: {', '.join(missing)}")
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tlt-offline-") as scratch:
        stage = Path(scratch)
        if args.site:
            (stage / SITE).symlink_to(args.site.resolve())
        else:
            install(stage / SITE, args.python)
        copy_checkout(stage / CHECKOUT)
        parts = write_parts(stage, args.out, args.part_mib, args.without)
    manifest = {
        "version": version(),
        "python": args.python,
        "without": sorted(args.without),
        "parts": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in parts},
    }
    (args.out / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    shutil.copy(Path(__file__).with_name("unpack.py"), args.out)
    total = sum(path.stat().st_size for path in parts) / 2**20
    print(f"{len(parts)} parts, {total:.0f} MiB")


def install(site: Path, python: str) -> None:
    """Install the checkout, its benchmarks and its demos with locked dependencies, as wheels for another Python."""
    command = [UV, "pip", "install", "-q", "--target", str(site), "--python-version", python]
    options = ["--python-platform", PLATFORM, "-c", str(ROOT / "deploy/constraints.txt")]
    own = ("benchmarks", "examples/03_countdown", "examples/12_word_problems")
    projects = [f"{ROOT}[test]", *(str(ROOT / name) for name in own)]
    subprocess.run([*command, *options, *projects], check=True)


def copy_checkout(to: Path) -> None:
    """Copy the files that git knows, since tests and the Makefile are not in the wheel."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in names.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def write_parts(stage: Path, out: Path, part_mib: int, without: list[str]) -> list[Path]:
    """Write both directories as one compressed archive, split into parts; return them in order."""
    left_out = [*ALWAYS_OUT, *(f"{SITE}/{name}" for group in without for name in GROUPS[group])]
    excluded = [f"--exclude={pattern}" for pattern in left_out]
    # -h: a site-packages that was named is a link. Files of one inode would be links, to names that unpack.py changes.
    command = ["tar", "-C", str(stage), *excluded, "--hard-dereference", "-hcf", "-", SITE, CHECKOUT]
    tar = subprocess.Popen(command, stdout=subprocess.PIPE)
    xz = subprocess.Popen(["xz", "-T0", "-6", "-c"], stdin=tar.stdout, stdout=subprocess.PIPE)
    split = ["split", "-b", f"{part_mib}m", "-d", "-a", "3", "-", str(out / "part-")]
    done = subprocess.run(split, stdin=xz.stdout, check=False)
    if tar.wait() or xz.wait() or done.returncode:
        sys.exit("packing failed; see above")
    return sorted(out.glob("part-*"))


def version() -> str:
    """Return the project's version."""
    line = next(line for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith("version = "))
    return line.split('"')[1]


if __name__ == "__main__":
    main()
