"""
Commands in README and docs: each is accepted by the program it calls, or listed with the reason why that is not tried.

What is cheap is run as it is written; of other commands of `tlt`, options and arguments are parsed.
"""

import re
import shlex
import subprocess
import sys
from fnmatch import fnmatch
from importlib.metadata import entry_points
from typing import Any

import pytest
import typer

from tests.unit.docs.test_pages import ROOT
from tlt_common.cli import app

PAGES = ("README.md", *(str(page.relative_to(ROOT)) for page in sorted(ROOT.glob("docs/**/*.md"))))
BLOCK = re.compile(r"```(?:bash|sh)\n(.*?)```", re.DOTALL)
ELSEWHERE = {
    "helm": "needs a cluster; `make cluster` runs the chart",
    "kubectl": "needs a cluster",
    "docker": "needs a registry; `make image` builds both images",
    "openssl": "needs the CA of a cluster",
    "curl": "needs a running suite; tests/integration calls the same addresses",
    "git": "clones or packs the repository; `make fresh` and tests/packaging do the same",
    "tar": "unpacks what was copied to a machine without a network; tests/packaging/test_offline.py",
    "cd": "enters the clone",
    "export": "for a machine without a network",
    "pip": "tests/packaging/test_install.py",
    "python3.12": "downloads 4.4 GB; tests/packaging/test_offline.py",
    "uv": "tests/packaging/test_distribution.py",
    "pytest": "suites run themselves",
    "mypy": "`make types`",
    ".": "activates the environment",
    "python": "`make trainers` runs the examples; SGLang's benchmark needs a GPU",
}
"""Programs of commands that are not tried here, and why."""
RUN = (
    "tlt up --model demos/countdown/countdown/checkpoint --dry-run",
    "tlt engine plan --card h100 --model-shape qwen2.5-7b",
)
"""Commands that are run as they are written, but on free ports."""
PLACEHOLDERS = {"...", "&"}
FOREIGN = {"try", "bench", "demo", "demo-real"}
"""Commands of distributions that are installed from a clone."""


def commands_of(page: str) -> list[str]:
    """Commands of a page in order, without comments, and with continued lines joined."""
    found = []
    for block in BLOCK.findall((ROOT / page).read_text()):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            command = re.sub(r"(^|\s)#.*", "", line).strip()
            if command and not line.startswith(" "):  # else the rest of a quoted argument
                found += command.split(" && ")
    return found


ALL = [(page, command) for page in PAGES for command in commands_of(page)]


@pytest.fixture(scope="module")
def tlt() -> Any:
    """The whole command, with every subcommand."""
    whole: Any = typer.main.get_command(app)
    for entry in entry_points(group="tlt.commands"):
        whole.add_command(typer.main.get_command(entry.load()), name=entry.name)
    return whole


def require_parsed(command: Any, arguments: list[str], name: str) -> None:
    """Parse options and arguments of a command and of its subcommands, without calling them."""
    with command.make_context(name, arguments) as context:
        rest = [*context._protected_args, *context.args]
        if rest and hasattr(command, "resolve_command"):
            name, subcommand, remaining = command.resolve_command(context, rest)
            require_parsed(subcommand, remaining, name or "")


@pytest.mark.parametrize(("page", "command"), ALL, ids=[f"{page}: {command[:60]}" for page, command in ALL])
def test_every_command_is_accepted_or_listed(page: str, command: str, tlt: Any) -> None:
    program, *arguments = shlex.split(command, comments=True) if command.count("'") % 2 == 0 else command.split()
    program = program.rpartition("/")[2]
    if program == "make":
        rules = re.findall(r"^([a-z][a-z0-9% -]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        targets = {target for rule in rules for target in rule.split()}
        for argument in arguments:
            assert "=" in argument or any(fnmatch(argument, target.replace("%", "*")) for target in targets), page
    elif program == "tlt":
        if arguments and arguments[0] in FOREIGN and arguments[0] not in entry_points(group="tlt.commands").names:
            pytest.skip("installed by `make install`")
        if arguments[0] not in {"--install-completion", "--show-completion"}:
            require_parsed(tlt, [argument for argument in arguments if argument not in PLACEHOLDERS], "tlt")
    else:
        assert program in ELSEWHERE, f"{page}: {command}"


@pytest.mark.parametrize("command", RUN)
def test_cheap_commands_are_on_a_page_and_run(command: str) -> None:
    assert command in {written for _, written in ALL}
    program, *arguments = shlex.split(command)
    assert program == "tlt"
    free_ports = ["--port", "0"] if "up" in arguments else []
    done = subprocess.run(
        [sys.executable, "-m", "tlt_common.cli", *arguments, *free_ports],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
