"""The `tlt` command and the client where little is installed."""

import tomllib

import pytest

from tests.packaging.conftest import ROOT, Environment

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = set(PROJECT["optional-dependencies"])
NEEDED_BY = {
    "worker": ["--set", "model=."],
    "cache": [],
    "trainer": [f"--set={key}=." for key in ("socket", "model", "drafter_dir", "checkpoint_dir")],
    "tuner": ["--set", "redis=redis://127.0.0.1:1"],
    "coordinator": [],
}
"""Services that do not start without their extra, with the settings that they require. The gateway starts without."""
HEAVY = ("torch", "sglang", "ray", "transformers", "redis", "numpy", "trl")
SLOW = ("asyncio", "grpc", "google", "rich", "structlog", "prometheus_client", "yaml", *HEAVY)
"""Top-level modules that no --help imports. Typer itself needs pydantic to read the options of a subcommand."""


def test_the_client_imports_without_the_packages_of_services(client: Environment) -> None:
    loaded = client.python(
        "import sys\n"
        "from tlt_suite import BlockingClient, Client, SamplingParams\n"
        "import tlt_suite.trl\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert loaded == "[]"
    missing = client.python(
        f"import importlib.util as u; print([n for n in {HEAVY} if n != 'numpy' and u.find_spec(n)])"
    )
    assert missing == "[]"


def test_help_is_printed_where_only_the_client_is_installed(client: Environment) -> None:
    done = client.run("tlt", "--help")
    assert done.returncode == 0, done.stderr
    for command in ("serve", "config", *PROJECT["entry-points"]["tlt.commands"]):
        assert f"  {command} " in done.stdout


@pytest.mark.parametrize(
    ("command", "forbidden"),
    [
        (["--help"], (*SLOW, "pydantic")),
        (["serve", "--help"], SLOW),
        *(([name, "--help"], SLOW) for name in PROJECT["entry-points"]["tlt.commands"]),
    ],
)
def test_help_imports_nothing_slow(client: Environment, command: list[str], forbidden: tuple[str, ...]) -> None:
    loaded = client.python(
        "import sys\n"
        "from tlt_common.cli import main\n"
        f"sys.argv = ['tlt', *{command}]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print([name for name in {forbidden} if name in sys.modules])"
    )
    assert loaded.splitlines()[-1] == "[]"


def test_the_time_of_help_is_printed(client: Environment, capsys: pytest.CaptureFixture[str]) -> None:
    times = client.python(
        "import subprocess, sys, time\n"
        "times = []\n"
        "for _ in range(5):\n"
        "    began = time.perf_counter()\n"
        "    subprocess.run([sys.prefix + '/bin/tlt', '--help'], check=True, capture_output=True)\n"
        "    times.append(time.perf_counter() - began)\n"
        "print(f'{min(times):.2f}')"
    )
    with capsys.disabled():
        print(f"\ntlt --help: {times} s (best of 5)")
    assert float(times) > 0


@pytest.mark.parametrize("command", ["demo", "bench", "tuner"])
def test_a_command_of_the_repository_says_where_it_runs(client: Environment, command: str) -> None:
    done = client.run("tlt", command)
    assert done.returncode == 2
    assert done.stderr.startswith(f"tlt: tlt {command} is not part of the package")


@pytest.mark.parametrize("service", NEEDED_BY)
def test_a_service_names_the_extra_it_lacks(bare: Environment, service: str) -> None:
    done = bare.run("tlt", "serve", service, *NEEDED_BY[service])
    assert done.returncode == 2, done.stderr
    assert f"'tlt-suite[{service}]'" in done.stderr


def test_each_service_has_an_extra_of_its_name() -> None:
    assert set(PROJECT["entry-points"]["tlt.services"]) <= EXTRAS


def test_commands_name_the_extra_they_lack(bare: Environment) -> None:
    done = bare.run("tlt", "fetch", "s3://models/one", "one")
    assert done.returncode == 2, done.stderr
    assert "the package fsspec is not installed" in done.stderr
    assert "'tlt-suite[all]'" in done.stderr
