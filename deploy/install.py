#!/usr/bin/env python3
"""
Install a set of packages into .venv of the checkout, as the Makefile does: deploy/install.py demo|bench|test|docs.
`deploy/install.py settings` prints the environment in which uv works on this machine, for a shell.

Needs Python 3.9 and nothing else: it brings uv, and finds or downloads a Python that the suite runs on. Packages come
from the index that uv or pip is set to, through the proxy that http_proxy and https_proxy name.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV, OWN = ROOT / ".venv", ROOT / ".uv"
CONSTRAINTS = ROOT / "deploy" / "constraints.txt"

DEMOS = ("demos/countdown", "demos/word_problems")
SETS = {
    "demo": [".[demo]", *DEMOS],
    "bench": [".[demo]", "benchmarks", *DEMOS],
    "test": [".[test]", "benchmarks", *DEMOS],
    "docs": [".[docs]"],
}
INCLUDED = {"bench": ["demo"], "test": ["demo", "bench", "docs"]}
"""Sets that are installed by installing another one."""

OLDEST, NEWEST = (3, 11), (3, 13)
DOWNLOADED = "3.12"
"""Python that uv downloads if the machine has none that fits."""
OLDEST_UV = (0, 8)
"""The first whose `uv venv` has --clear."""
NEEDED_GB, NEEDED_FOR_DOCS_GB = 12.0, 0.5
"""Measured: 11 GB with everything, 9 GB of it torch and the CUDA libraries. uv links its cache, where it can."""
CONNECT_S = "8"
BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


def main() -> None:
    """Install the set that the command line names."""
    if sys.argv[1:] == ["settings"]:
        before = dict(os.environ)
        settings()
        changed = (f"export {name}={shlex.quote(value)}" for name, value in os.environ.items() if name not in before)
        print("\n".join(changed))
        return
    if len(sys.argv) != 2 or sys.argv[1] not in SETS:
        fail(f"name one set of {', '.join(SETS)}")
    name = sys.argv[1]
    require_machine()
    settings()
    require_room(name)
    uv = find_uv() or bring_uv()
    require_index(uv)
    make_environment(uv)
    say(f"installing the packages of '{name}'; the large ones are torch and SGLang")
    install(uv, [word for package in SETS[name] for word in ("-e", package if package[0] == "." else f"./{package}")])
    for installed in (name, *INCLUDED.get(name, [])):
        (VENV / f".installed-{installed}").touch()


def say(text: str) -> None:
    """Print a stage."""
    print(f"install: {text}", file=sys.stderr, flush=True)


def fail(text: str) -> None:
    """Exit with one line that says what to do."""
    sys.exit(f"install: {text}")


def require_machine() -> None:
    """Exit unless packages exist for this machine."""
    found = f"{platform.system()} {platform.machine()}"
    if found not in {"Linux x86_64", "Linux aarch64"}:
        fail(f"this is {found}; TLT requires Linux on x86-64 (on AArch64, nobody has tried it)")
    if " " in str(ROOT):  # Ray splits the command of its workers at spaces, the interpreter's path included
        fail(f"the path of the checkout has a space, with which Ray starts no workers: move {ROOT} to another")


def settings() -> None:
    """Set up the environment of uv and pip: what pip is configured to use, and places that can be written to."""
    environment = os.environ
    environment.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    if not any(environment.get(name) for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_CONFIG_FILE")):
        for theirs, ours in (("index-url", "UV_DEFAULT_INDEX"), ("extra-index-url", "UV_INDEX")):
            if url := pip_setting(theirs):
                environment.setdefault(ours, url)
    if not environment.get("SSL_CERT_FILE") and any(Path(bundle).is_file() for bundle in BUNDLES):
        environment.setdefault("UV_SYSTEM_CERTS", "1")  # a company's own authority is among the system's
    home = environment.get("HOME", "")
    for name, usual, ours in (
        ("UV_CACHE_DIR", environment.get("XDG_CACHE_HOME") or (home and f"{home}/.cache"), "cache"),
        ("UV_PYTHON_INSTALL_DIR", environment.get("XDG_DATA_HOME") or (home and f"{home}/.local/share"), "python"),
    ):
        if not environment.get(name) and not (usual and is_writable(Path(usual, "uv"))):
            environment[name] = str(OWN / ours)


def pip_setting(name: str) -> str:
    """Return what pip's environment or files set, or nothing; uv does not read them."""
    found = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    values = re.findall(rf"^[\w:]+\.{name}='(.*)'$", found.stdout, re.MULTILINE)
    return values[-1].replace("\\n", " ") if values else ""


def is_writable(directory: Path) -> bool:
    """Return whether a directory can be written to, or made."""
    return os.access(existing(directory), os.W_OK | os.X_OK)


def require_room(name: str) -> None:
    """Exit if the disk is too small, before anything is downloaded. What the cache has is not written again."""
    if any((VENV / f".installed-{other}").exists() for other in SETS if other != "docs"):
        return  # what is large is there
    needed_gb = NEEDED_FOR_DOCS_GB if name == "docs" else NEEDED_GB
    cache = Path(
        os.environ.get("UV_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "uv"
    )
    held_gb = None
    for place in (ROOT, existing(cache)):
        free_gb = shutil.disk_usage(place).free / 1e9
        if free_gb >= needed_gb:
            continue
        is_linked = place.stat().st_dev == existing(cache).stat().st_dev
        held_gb = size_gb(cache) if held_gb is None and is_linked else held_gb
        if free_gb + (held_gb or 0.0 if is_linked else 0.0) < needed_gb:
            fail(
                f"{place} has {free_gb:.1f} GB of free disk space; {needed_gb:g} GB are needed: free some, or move the "
                "checkout and uv's cache (UV_CACHE_DIR) to a larger disk"
            )


def existing(path: Path) -> Path:
    """Return the path or its nearest parent that exists."""
    return next(place for place in (path, *path.parents) if place.exists())


def size_gb(directory: Path) -> float:
    """Return the size of all files below a directory, each counted once."""
    sizes = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            found = Path(folder, name).lstat()
            sizes[found.st_ino] = found.st_blocks * 512
    return sum(sizes.values()) / 1e9


def find_uv() -> str | None:
    """Return a uv that is new enough: on PATH, or brought earlier."""
    for candidate in (shutil.which("uv"), str(OWN / "bin" / "uv")):
        if candidate and Path(candidate).exists():
            found = re.match(r"uv (\d+)\.(\d+)", output([candidate, "--version"]))
            if found and (int(found[1]), int(found[2])) >= OLDEST_UV:
                return candidate
    return None


def bring_uv() -> str:
    """Install the uv that is pinned into a place of its own, as systems protect their Python (PEP 668)."""
    lines = CONSTRAINTS.read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("uv=="))
    end = next(at for at in range(start, len(lines)) if not lines[at].endswith("\\")) + 1
    say(f"bringing {lines[start].split()[0]}")
    options = ["--quiet", "--no-input", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--retries", "1"]
    environment = {"PIP_DEFAULT_TIMEOUT": CONNECT_S, **os.environ, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    with tempfile.TemporaryDirectory() as directory:
        wanted = Path(directory) / "uv.txt"
        wanted.write_text("\n".join(lines[start:end]))
        shutil.rmtree(OWN / "bin", ignore_errors=True)
        if output([sys.executable, "-m", "pip", "--version"]):
            command = [sys.executable, "-m", "pip", "install", *options, "--upgrade", "--target", str(OWN)]
        elif run([sys.executable, "-m", "venv", "--clear", str(OWN)]).returncode == 0:
            command = [str(OWN / "bin" / "python"), "-m", "pip", "install", *options]
        else:
            shutil.rmtree(OWN, ignore_errors=True)
            fail(
                "Python has neither pip nor venv here: apt-get install python3-venv, or put uv "
                f"{'.'.join(map(str, OLDEST_UV))} or later on PATH"
            )
        done = run([*command, "-r", str(wanted)], env=environment)
    if done.returncode:
        fail(f"uv cannot be installed: {cause(done.stderr)}. {REACH}")
    return str(OWN / "bin" / "uv")


REACH = (
    "Check the network, http_proxy and https_proxy, and the index (PIP_INDEX_URL, UV_DEFAULT_INDEX); docs/gpu.md says "
    "how to install without a network"
)


def require_index(uv: str) -> None:
    """Exit within seconds if the package index does not answer: uv would try for minutes."""
    environment = {
        **os.environ,
        "UV_HTTP_RETRIES": "0",
        "UV_HTTP_TIMEOUT": CONNECT_S,
        "UV_HTTP_CONNECT_TIMEOUT": CONNECT_S,
    }
    done = run([uv, "pip", "compile", "--quiet", "--no-cache", "--no-deps", "-"], env=environment, given="typer\n")
    if done.returncode:
        fail(f"the package index cannot be used: {cause(done.stderr)}. {REACH}")


def make_environment(uv: str) -> None:
    """Make .venv, unless there is one that works."""
    if fits(output([str(VENV / "bin" / "python"), "-c", SHOW])):
        return
    between = f">={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}"
    words = " to ".join(f"{major}.{minor}" for major, minor in (OLDEST, NEWEST))
    python = sys.executable if fits(output([sys.executable, "-c", SHOW])) else ""
    python = python or output([uv, "python", "find", "--no-python-downloads", "--system", between])
    if not python:
        say(f"no Python {words} is here; downloading {DOWNLOADED}")
    environment = {**os.environ, "UV_HTTP_RETRIES": "1"}
    done = run([uv, "venv", "--quiet", "--clear", "--python", python or DOWNLOADED, str(VENV)], env=environment)
    if done.returncode and python:
        fail(f"{VENV} cannot be made with {python}: {cause(done.stderr)}")
    if done.returncode:
        fail(
            f"no Python {words} is here, and uv cannot download one: {cause(done.stderr)}. Install one "
            "(apt-get install python3.12, dnf install python3.12), or name a mirror in UV_PYTHON_INSTALL_MIRROR"
        )


SHOW = "import sys, sysconfig; print('{}.{}'.format(*sys.version_info))"


def fits(version: str) -> bool:
    """Return whether the suite runs on a Python of that version."""
    return bool(version) and OLDEST <= tuple(map(int, version.split("."))) <= NEWEST


def install(uv: str, packages: list[str]) -> None:
    """Install packages. uv shows its progress on a terminal; elsewhere what it says, without the list of packages."""
    command = [uv, "pip", "install", "--python", str(VENV / "bin" / "python"), "-c", str(CONSTRAINTS), *packages]
    with subprocess.Popen(
        command, cwd=ROOT, stderr=None if sys.stderr.isatty() else subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr or ():
            if not line.startswith((" + ", " - ", " ~ ")):
                print(line, end="", file=sys.stderr, flush=True)
    if process.returncode:
        fail("the packages could not be installed; see above")


def run(
    command: list[str], *, env: dict[str, str] | None = None, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program; the caller judges how it ended."""
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=env, input=given)


def output(command: list[str]) -> str:
    """Return what a program prints; nothing if it fails or does not exist."""
    try:
        done = run(command)
    except OSError:
        return ""
    return "" if done.returncode else done.stdout.strip()


def cause(text: str) -> str:
    """Return the innermost cause that uv or pip gives, on one line."""
    if "WARNING: Retrying" in text:  # pip ends with the consequence: that it found no version
        return "the package index does not answer"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [re.sub(r"^(error|ERROR|cause|Caused by):\s*", "", line) for line in lines if not line.startswith("hint")]
    return (lines[-1] if lines else "no reason given").rstrip(".")


if __name__ == "__main__":
    main()
