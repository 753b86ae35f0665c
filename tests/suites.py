"""
When each long suite last passed, in `suites.tsv`: suites that `make` runs whole write it, and it is committed.

    python -m tests.suites               # list them, those first that have not passed for longest
    python -m tests.suites passed NAME   # record that one has passed now
"""

import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FILE = Path(__file__).with_suffix(".tsv")
SUITES = (
    "campaign", "chart", "cluster", "cluster-disturbances", "cluster-kuberay", "conformance", "engine-slow", "families",
    "fresh", "fuzz", "hostile", "image", "image-engine", "loops", "observability", "page", "real", "stack",
    "test-lossless", "trainers",
)  # fmt: skip
"""Targets of the Makefile that `make test` does not run."""


class PassedSuite(NamedTuple):
    """A line of the file."""

    suite: str
    commit: str
    """With a plus at its end if files were changed since."""
    day: str
    """Like 2026-01-31."""


def parsed(text: str) -> "dict[str, PassedSuite]":
    """Return the suites that have passed, by name."""
    lines = (line.split("\t") for line in text.splitlines())
    return {suite: PassedSuite(suite, commit, day) for suite, commit, day in lines}


def written(passed: "dict[str, PassedSuite]") -> str:
    """Return the content of the file."""
    return "".join("\t".join(passed[suite]) + "\n" for suite in sorted(passed))


def listed(passed: "dict[str, PassedSuite]") -> str:
    """Return a line for each suite: those that never passed, then from the one that did so longest ago."""
    never = [f"{suite:<22} never" for suite in SUITES if suite not in passed]
    known = sorted((one for one in passed.values() if one.suite in SUITES), key=lambda one: (one.day, one.suite))
    return "\n".join([*never, *(f"{one.suite:<22} {one.day}  {one.commit}" for one in known)])


def record(suite: str) -> PassedSuite:
    """Record that a suite has passed now."""
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{FILE.relative_to(ROOT)}")
    commit = _git("rev-parse", "--short=10", "HEAD") or "unknown"
    one = PassedSuite(suite, commit + ("+" if changed else ""), date.today().isoformat())  # noqa: DTZ011 - a day is enough
    FILE.write_text(written({**parsed(FILE.read_text()), suite: one}))
    return one


def _git(*arguments: str) -> str:
    """Return what git says; empty outside of a repository."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def main(arguments: "list[str]") -> None:
    """Run the command."""
    if not arguments:
        sys.stdout.write(listed(parsed(FILE.read_text())) + "\n")
    elif len(arguments) == 2 and arguments[0] == "passed" and arguments[1] in SUITES:
        one = record(arguments[1])
        sys.stdout.write(f"== {one.suite} passed at {one.commit}\n")
    else:
        sys.exit(f"suites: {' '.join(arguments)}; accepted: nothing, or passed and one of {', '.join(SUITES)}")


if __name__ == "__main__":
    main(sys.argv[1:])
