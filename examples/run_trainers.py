"""Runs each trainer's scenario against a suite on this machine and prints what came out: `make trainers`."""

import argparse
import asyncio
import os
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
from uv import find_uv_bin

from tlt_local.configuration.config import StackConfig
from tlt_local.stack import Stack
from tlt_local.supervision.processes import Ended

EXAMPLES = Path(__file__).resolve().parent
MODEL = EXAMPLES.parent / "demos/countdown/countdown/checkpoint"
ENVIRONMENTS = EXAMPLES.parent / ".trainers"
TIMEOUT_S = 600.0
MARK = "result: "
BEGIN, END = "<!-- results: make trainers -->", "<!-- end of results -->"
EMPTY = f"# Trainers\n\n{BEGIN}\n{END}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One trainer in one mode, from a scenario.toml."""

    directory: Path
    trainer: str
    version: str
    mode: str
    """Which of the trainer's extension points is used."""
    ran: str
    """What of the trainer runs."""
    run: str
    """Program and its options; {model}, {endpoint} and {http} are replaced."""
    packages: tuple[str, ...] = ()
    """Installed without their dependencies on top of this environment; those they import are listed too."""
    python: str = ""
    """Version of Python of an environment with the packages, what they need, and nothing of this one; empty: none."""
    source: str = ""
    """Environment variable with a directory of sources, for what is not on PyPI; empty: none is needed."""

    @property
    def name(self) -> str:
        """The directory's name without its number."""
        return self.directory.name.partition("_")[2]

    @property
    def place(self) -> tuple[str, str]:
        """Trainer and mode, which tell rows of the table apart."""
        return self.trainer, self.mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came out of one scenario."""

    scenario: Scenario
    result: str
    passed: bool | None
    """None: not run."""

    @property
    def row(self) -> str:
        """The outcome as a row of the table."""
        one = self.scenario
        state = {True: "passed", False: "**failed**", None: "not run"}[self.passed]
        command = f"`{one.directory.name}/{one.run.split()[0]}`"
        return f"| {one.trainer} | {one.version} | {one.mode} | {one.ran} | {command} | {state}: {self.result} |"


def scenarios(names: Sequence[str] = ()) -> list[Scenario]:
    """Return the scenarios in the directories of these names, or all."""
    found = [
        Scenario(directory=path.parent, **entry | {"packages": tuple(entry.get("packages", ()))})
        for path in sorted(EXAMPLES.glob("*/scenario.toml"))
        for entry in tomllib.loads(path.read_text())["scenario"]
    ]
    if unknown := set(names) - {one.name for one in found}:
        raise SystemExit(f"no scenarios {sorted(unknown)}; accepted: {', '.join(sorted({one.name for one in found}))}")
    return [one for one in found if not names or one.name in names]


def python_of(scenario: Scenario) -> Path:
    """
    Return an interpreter that imports the scenario's packages first and then this environment's.

    A trainer's own pins of torch and Transformers are ignored: several gigabytes, of which its client uses nothing.
    """
    if scenario.python:
        return isolated(scenario)
    if not scenario.packages:
        return Path(sys.executable)
    home = ENVIRONMENTS / scenario.name
    python = home / "bin/python"
    if not python.exists():
        uv("venv", "--python", sys.executable, str(home))
        (site,) = home.glob("lib/python*/site-packages")
        ours = next(path for path in sys.path if path.endswith("site-packages"))
        (site / "_suite.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    uv("pip", "install", "--no-deps", "--python", str(python), *scenario.packages)
    return python


def isolated(scenario: Scenario) -> Path:
    """Return an interpreter of the scenario's own version, with its packages, what they need and our sources."""
    home = ENVIRONMENTS / scenario.name
    python = home / "bin/python"
    if not python.exists():
        uv("venv", "--python", scenario.python, str(home))
        (site,) = home.glob("lib/python*/site-packages")
        (site / "_suite.pth").write_text(f"{EXAMPLES.parent}\n")
    uv("pip", "install", "--python", str(python), *scenario.packages)
    return python


def uv(*words: str) -> None:
    """Run uv; what it says about a failure is in the error."""
    subprocess.run([find_uv_bin(), words[0], "-q", *words[1:]], check=True, capture_output=True, text=True)


def played(scenario: Scenario, endpoint: str, http: str) -> Outcome:
    """Run one scenario to its end."""
    sources = os.environ.get(scenario.source, "")
    if scenario.source and not (sources and Path(sources).is_dir()):
        return Outcome(scenario=scenario, result=f"no source; set {scenario.source}", passed=None)
    program, *options = shlex.split(scenario.run.format(model=MODEL, endpoint=endpoint, http=http))
    try:
        command = [str(python_of(scenario)), str(scenario.directory / program), *options]
    except (subprocess.CalledProcessError, OSError) as error:
        return Outcome(scenario=scenario, result=f"no environment: {why(error)}", passed=None)
    # Trainers' own clients obey proxy variables, and the suite is on this machine.
    direct = ",".join(filter(None, (os.environ.get("NO_PROXY"), "127.0.0.1,localhost")))
    environment = os.environ | {
        "NO_PROXY": direct,
        "no_proxy": direct,
        "PYTHONPATH": sources,
        "TRL_EXPERIMENTAL_SILENCE": "1",
        "HF_HUB_OFFLINE": "1",
    }
    began_s = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(scenario=scenario, result=f"did not end within {TIMEOUT_S:.0f} s", passed=False)
    results = [line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK)]
    if done.returncode == 0 and results:
        return Outcome(scenario=scenario, result=f"{results[-1]} ({time.monotonic() - began_s:.0f} s)", passed=True)
    print(done.stdout[-4000:], done.stderr[-4000:], file=sys.stderr)
    lines = done.stderr.strip().splitlines() or ["no result"]
    return Outcome(scenario=scenario, result=lines[-1][:200].replace("|", "/"), passed=False)


def why(error: subprocess.CalledProcessError | OSError) -> str:
    """Return the cause that uv gives, or the system, on one line."""
    given = (error.stderr or "").strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
    return " ".join(given.split())[:200].replace("|", "/") or str(error)


def restored(http: str) -> None:
    """Serve the checkpoint's weights again, and let requests begin, whatever the last scenario left."""
    with httpx.Client(base_url=http, timeout=60, trust_env=False) as client:
        client.post("/resume_memory_occupation", json={}).raise_for_status()
        client.post("/continue_generation", json={}).raise_for_status()
        client.post("/update_weights_from_disk", json={"model_path": str(MODEL)}).raise_for_status()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The suite that scenarios run against."""

    endpoint: str
    http: str
    ended: Callable[[], Iterable[Ended]] = tuple
    """Returns what has ended by itself."""


@asynccontextmanager
async def suite(endpoint: str, http: str) -> AsyncIterator[Suite]:
    """Use the suite that is named, or one that lives as long as the block."""
    if endpoint and http:
        yield Suite(endpoint=endpoint, http=http)
        return
    # In the trainers' precision, since some scenarios compare the engine's logprobs with the trainer's.
    settings = {"coordinator": {"lending": False}, "worker": {"engine": {"dtype": "float32", "releasable": True}}}
    config = StackConfig(model=MODEL, workers=1, settings=settings)
    async with Stack(config, say=lambda text: print(f"{text} ...", flush=True), restarts=True) as stack:
        yield Suite(endpoint=stack.endpoint, http=stack.http_url, ended=lambda: stack.ended)


def judged(outcome: Outcome, ended: Iterable[Ended]) -> Outcome:
    """Return the outcome of a scenario, which has failed if a part of the suite ended by itself meanwhile."""
    if not (broken := "; ".join(map(str, ended))):
        return outcome
    print(broken, file=sys.stderr)
    return replace(outcome, result=f"{broken} (the scenario: {outcome.result})"[:400].replace("|", "/"), passed=False)


async def outcomes_of(
    asked: Sequence[Scenario], started: Callable[[], AbstractAsyncContextManager[Suite]]
) -> AsyncIterator[Outcome]:
    """Run scenarios one after the other; after one that breaks the suite, the next ones run against a new one."""
    left = list(asked)
    while left:
        async with started() as running:
            while left and not running.ended():
                scenario = left.pop(0)
                print(f"{scenario.name}: {scenario.mode} ...", flush=True)
                try:
                    await asyncio.to_thread(restored, running.http)
                except httpx.HTTPError as error:
                    outcome = Outcome(scenario=scenario, result=f"the suite does not answer: {error}", passed=False)
                else:
                    outcome = await asyncio.to_thread(played, scenario, running.endpoint, running.http)
                yield judged(outcome, running.ended())


def table(rows: Iterable[str]) -> str:
    """Return rows as a Markdown table."""
    head = ["| trainer | version | mode | what ran | program | result |", "| --- | --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *rows])


def written(page: str, outcomes: Sequence[Outcome]) -> str:
    """Return a page with the rows of what was run; a row of what was not run only replaces none."""
    before, _, rest = page.partition(BEGIN)
    old, _, after = rest.partition(END)
    found = {_place(row): row for row in old.splitlines() if row.startswith("| ")}
    found |= {
        one.scenario.place: one.row for one in outcomes if one.passed is not None or one.scenario.place not in found
    }
    rows = [found[one.place] for one in scenarios() if one.place in found]
    return f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{after}"


def _place(row: str) -> tuple[str, str]:
    cells = [cell.strip() for cell in row.split("|")]
    return cells[1], cells[3]


async def main() -> None:
    """Run what was asked for; exit with 1 if a scenario failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="Directories of examples without their numbers; default: all.")
    parser.add_argument("--endpoint", default="", help="host:port of a running suite; default: start one.")
    parser.add_argument("--http", default="", help="URL of its endpoint over HTTP.")
    parser.add_argument(
        "--write", type=Path, action="append", default=[], metavar="FILE",
        help="Markdown file whose table gets the results; it is created if missing.",
    )  # fmt: skip
    options = parser.parse_args()
    outcomes = []
    async for outcome in outcomes_of(scenarios(options.names), lambda: suite(options.endpoint, options.http)):
        outcomes.append(outcome)
        print(f"  {outcome.result}", flush=True)
        for page in options.write:  # at once, so that an interrupted run keeps what it has
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(written(page.read_text() if page.exists() else EMPTY, [outcome]))
    print(table(outcome.row for outcome in outcomes))
    raise SystemExit(any(outcome.passed is False for outcome in outcomes))


if __name__ == "__main__":
    asyncio.run(main())
