"""One engine for the whole suite, and deliberately broken ones; each scene runs once."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.loops import Loop
from tests.lossless import judge, report
from tests.lossless.cases import SIZES, Size
from tests.lossless.scenes import SuiteResult

ROOT = Path(__file__).parents[2]
Play = Callable[..., Any]
_LINES = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--size", choices=tuple(SIZES), default="short", help="Size of the lossless suite.")


@pytest.fixture(scope="session")
def size_name(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--size", default="short"))  # the option does not exist if all tests are run


@pytest.fixture(scope="session")
def size(size_name: str) -> Size:
    return SIZES[size_name]


@pytest.fixture(scope="session")
def host(size_name: str, tmp_path_factory: pytest.TempPathFactory) -> Play:
    """Run a scene of `scenes.py` in its own process and return its result."""

    def run(scene: str, **variables: str) -> Any:
        work = tmp_path_factory.mktemp(scene)
        result = work / "result.pickle"
        done = subprocess.run(
            [sys.executable, "-m", "tests.lossless.host", scene, size_name, str(result), str(work)],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
            timeout=SIZES[size_name].limit_s,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
        return pickle.loads(result.read_bytes())  # noqa: S301 - written by our own child

    return run


@pytest.fixture(scope="session")
def play(host: Play, loop: Loop) -> Play:
    """Run a scene in a loop."""
    return partial(host, **loop.variables)


@pytest.fixture(scope="session")
def suite(play: Play) -> SuiteResult:
    result: SuiteResult = play("whole")
    return result


@pytest.fixture(scope="session")
def verdicts(suite: SuiteResult, loop: Loop, size_name: str, request: pytest.FixtureRequest) -> list[judge.Verdict]:
    found = judge.verdicts(suite.target, suite.phases)
    lines = report.table(found, loop, whole=size_name != "short")
    request.config.stash[_LINES] = [*request.config.stash.get(_LINES, []), *lines]
    return found


@pytest.fixture(scope="session")
def broken_plugin(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a PYTHONPATH on which SGLang finds `broken.install` in addition to the product's plug-in."""
    directory = tmp_path_factory.mktemp("plugin")
    (info := directory / "tlt_broken-0.dist-info").mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tlt-broken\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[sglang.srt.plugins]\ntlt_broken = tests.lossless.broken:install\n")
    return os.pathsep.join([str(directory), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the table to the process that prints the summary, if that is another one."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["lossless"] = session.config.stash.get(_LINES, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    stash = node.config.stash
    stash[_LINES] = [*stash.get(_LINES, []), *getattr(node, "workeroutput", {}).get("lossless", [])]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for line in config.stash.get(_LINES, []):
        terminalreporter.write_line(line)
