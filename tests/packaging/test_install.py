"""deploy/install.py, before and after what uv does: what is refused with one line, and what is asked of uv."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from uv import find_uv_bin

from tests.packaging.conftest import ROOT

SETS = ("demo", "bench", "test", "docs")
PYTHONS = ("3.11.2", "3.12.0", "3.13.0")
"""The oldest is Debian 12's."""
CLOSED = "http://127.0.0.1:9"
"""The discard port, on which nothing listens."""
UV = """#!/bin/sh
echo "$*" >> "$(dirname "$0")/calls"
[ "$1" = --version ] && echo "uv {version} (x86_64)"
[ "$1" != venv ] || mkdir -p .venv/bin
{more}
exit 0
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the script needs of a checkout."""
    root = tmp_path / "checkout"
    (root / "deploy").mkdir(parents=True)
    for name in ("install.py", "constraints.txt"):
        shutil.copy(ROOT / "deploy" / name, root / "deploy")
    return root


@pytest.fixture
def script(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(os, "environ", {**os.environ})  # the script sets what it hands on to uv and pip
    spec = importlib.util.spec_from_file_location("install", checkout / "deploy/install.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def installed(checkout: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("UV_", "PIP_"))}
    return subprocess.run(
        [sys.executable, checkout / "deploy/install.py", *arguments],
        env={**kept, "PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def fake_uv(checkout: Path, *, version: str = "0.13.9", more: str = "") -> Path:
    """Write a uv that notes its calls; return the directory to put on PATH."""
    directory = checkout / "fake"
    directory.mkdir()
    (directory / "uv").write_text(UV.format(version=version, more=more))
    (directory / "uv").chmod(0o755)
    return directory


def calls(directory: Path) -> list[str]:
    return (directory / "calls").read_text().splitlines()


@pytest.mark.parametrize("python", PYTHONS)
def test_every_set_has_wheels_for_every_python(python: str, tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.txt"
    wanted.write_text("\n".join(f"tlt-suite[{extra}] @ {ROOT.as_uri()}" for extra in ("demo", "test", "docs")))
    command = [find_uv_bin(), "pip", "compile", "-q", "--python-version", python, "--only-binary", ":all:"]
    command += ["--python-platform", "x86_64-manylinux_2_34", "-c", str(ROOT / "deploy/constraints.txt"), str(wanted)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pinned = {line.split()[0] for line in (ROOT / "deploy/constraints.txt").read_text().splitlines() if "==" in line}
    assert {line.split()[0] for line in done.stdout.splitlines() if "==" in line} <= pinned


@pytest.mark.parametrize("name", SETS)
def test_each_set_asks_for_its_own_packages(checkout: Path, name: str) -> None:
    directory = fake_uv(checkout)
    done = installed(checkout, name, PATH=f"{directory}:/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    (asked,) = (call for call in calls(directory) if call.startswith("pip install"))
    extra = "demo" if name == "bench" else name
    assert f"-e .[{extra}]" in asked
    assert ("-e ./benchmarks" in asked) is (name in {"bench", "test"})
    for demo in ("countdown", "word_problems"):
        assert (f"-e ./demos/{demo}" in asked) is (name != "docs")
    stamps = {path.name.removeprefix(".installed-") for path in (checkout / ".venv").glob(".installed-*")}
    assert stamps == {name} | ({"demo", "bench", "docs"} if name == "test" else {"demo"} if name == "bench" else set())


def test_what_calls_uv_later_gets_the_same_settings(checkout: Path) -> None:
    done = installed(checkout, "settings", HOME="/dev/null", PIP_DISABLE_PIP_VERSION_CHECK="1")
    assert done.returncode == 0
    said = dict(line.removeprefix("export ").split("=", 1) for line in done.stdout.splitlines())
    assert said["UV_CACHE_DIR"] == f"{checkout}/.uv/cache"
    assert said.keys() <= {"UV_CACHE_DIR", "UV_PYTHON_INSTALL_DIR", "UV_SYSTEM_CERTS", "UV_DEFAULT_INDEX", "UV_INDEX"}


def test_a_path_with_a_space_is_refused_in_one_line(checkout: Path) -> None:
    moved = checkout.rename(checkout.with_name("my checkout"))
    done = installed(moved, "demo")
    assert done.returncode == 1
    assert done.stderr == (
        f"install: the path of the checkout has a space, with which Ray starts no workers: move {moved} to another\n"
    )


def test_an_unknown_set_is_named_with_those_that_exist(checkout: Path) -> None:
    done = installed(checkout, "dev")
    assert done.returncode == 1
    assert done.stderr == "install: name one set of demo, bench, test, docs\n"


@pytest.mark.parametrize("how", [{"PIP_INDEX_URL": CLOSED}, {"http_proxy": CLOSED, "https_proxy": CLOSED}], ids=str)
def test_without_a_network_one_line_says_so(checkout: Path, how: dict[str, str]) -> None:
    """Without uv on PATH, which pip then brings; a proxy is used, as pip and uv always do."""
    done = installed(checkout, "demo", **how)
    assert done.returncode == 1
    *stages, last = done.stderr.splitlines()
    assert [line.split()[1] for line in stages] == ["bringing"]
    assert last.startswith(
        "install: uv cannot be installed: the package index does not answer. Check the network, http_"
    )
    assert not (checkout / ".venv").exists()


def test_an_index_that_does_not_answer_uv_is_told_before_anything_is_made(checkout: Path) -> None:
    more = '[ "$2" != compile ] || { echo "error: Failed\n  cause: dns error" >&2; exit 2; }'
    done = installed(checkout, "demo", PATH=f"{fake_uv(checkout, more=more)}:/usr/bin:/bin")
    assert done.returncode == 1
    assert done.stderr.startswith("install: the package index cannot be used: dns error. Check the network")
    assert len(done.stderr.splitlines()) == 1
    assert not (checkout / ".venv").exists()


def test_an_old_uv_is_not_used(checkout: Path) -> None:
    directory = fake_uv(checkout, version="0.4.30")
    done = installed(checkout, "demo", PATH=f"{directory}:/usr/bin:/bin", PIP_INDEX_URL=CLOSED)
    assert "install: bringing uv==" in done.stderr
    assert calls(directory) == ["--version"]


def test_without_a_python_that_fits_one_line_says_what_to_install(
    script: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = '[ "$1" != venv ] || { echo "  cause: error resolving DNS" >&2; exit 2; }\n[ "$1" != python ] || exit 2'
    directory = fake_uv(checkout, more=more)
    monkeypatch.setattr(script, "OLDEST", (3, 9))
    monkeypatch.setattr(script, "NEWEST", (3, 10))
    with pytest.raises(SystemExit, match=r"no Python 3.* is here, and uv cannot download one: error resolving DNS"):
        script.make_environment(str(directory / "uv"))
    assert any(call.startswith("venv --quiet --clear --python 3.12") for call in calls(directory))


def test_a_shim_that_fails_is_no_python(script: ModuleType, tmp_path: Path) -> None:
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\necho 'python3.12: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    assert not script.fits(script.output([str(shim), "-c", script.SHOW]))
    assert [script.fits(version) for version in ("3.10", "3.11", "3.13", "3.14", "")] == [
        False,
        True,
        True,
        False,
        False,
    ]


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.mark.parametrize(
    ("free_gb", "cached_gb", "is_refused"), [(13.0, 0.0, False), (5.0, 0.0, True), (5.0, 9.0, False), (5.0, 3.0, True)]
)
def test_room_is_asked_for_before_a_download(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    free_gb: float,
    cached_gb: float,
    is_refused: bool,
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(script.shutil, "disk_usage", lambda path: Usage(0, 0, int(free_gb * 1e9)))
    monkeypatch.setattr(script, "size_gb", lambda path: cached_gb)
    if is_refused:
        with pytest.raises(SystemExit, match=r"has 5\.0 GB of free disk space; 12 GB are needed"):
            script.require_room("demo")
    else:
        script.require_room("demo")


def test_what_is_installed_needs_no_more_room(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script.shutil, "disk_usage", lambda path: Usage(0, 0, 10**8))
    script.VENV.mkdir()
    (script.VENV / ".installed-demo").touch()
    script.require_room("test")


def test_a_cache_is_measured_once_per_file(script: ModuleType, tmp_path: Path) -> None:
    (cache := tmp_path / "cache").mkdir()
    (cache / "a").write_bytes(os.urandom(1 << 20))
    os.link(cache / "a", cache / "b")
    assert script.size_gb(cache) == pytest.approx((1 << 20) / 1e9, rel=0.05)


@pytest.mark.parametrize("home", ["/dev/null", ""])
def test_a_home_that_cannot_be_written_to_is_replaced_by_the_checkout(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, checkout: Path, home: str
) -> None:
    for name in ("UV_CACHE_DIR", "UV_PYTHON_INSTALL_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", home)
    script.settings()
    assert os.environ["UV_CACHE_DIR"] == str(checkout / ".uv/cache")
    assert os.environ["UV_PYTHON_INSTALL_DIR"] == str(checkout / ".uv/python")


def test_what_pip_is_told_holds_for_uv(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(script, "pip_setting", {"index-url": "https://packages.internal/simple"}.get)
    script.settings()
    assert os.environ["UV_DEFAULT_INDEX"] == "https://packages.internal/simple"
    assert "UV_INDEX" not in os.environ


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("error: Failed to fetch\n  cause: dns error\n  cause: not known\n\nhint: nothing\n", "not known"),
        ("WARNING: Retrying (Retry(total=0))\nERROR: No matching distribution", "the package index does not answer"),
        ("", "no reason given"),
    ],
)
def test_the_innermost_cause_is_said(script: ModuleType, said: str, found: str) -> None:
    assert script.cause(said) == found
