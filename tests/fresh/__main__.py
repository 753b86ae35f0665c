"""
Try the README's first command on minimal systems, in namespaces of their own: `make fresh`.

Needs root, mmdebstrap and unshare; systems are kept in ~/.cache/tlt/fresh. Prints a table, and writes it to
reports/fresh.md, with what the commands said in reports/fresh. Needs nothing that is installed by the checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fresh.cases import CASES, REFUSED_WITHIN_S, TESTS, Case

ROOT = Path(__file__).parents[2]
KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tlt" / "fresh"
CACHE = Path(os.environ.get("UV_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "uv"))
PACKAGES = "python3,python3-venv,python3-pip,make,git,ca-certificates"
REPORTS = ROOT / "reports"


def main() -> None:
    """Run the cases; exit with 1 if one is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="Only what CI runs: one system, no demo.")
    parser.add_argument("--test", action="store_true", help="Run `make test` in one system, too (an hour each).")
    parser.add_argument("--only", default="", help="Only cases whose name contains this.")
    args = parser.parse_args()
    if missing := needs():
        print(f"fresh: skipped: needs {missing}")
        return
    cases = [case for case in (*CASES, *(TESTS if args.test else ())) if args.only in case.name]
    rows = []
    for case in cases:
        if case.is_short or not args.short:
            rows.append(tried(case))
            print(line(rows[-1]), flush=True)
    write(rows)
    sys.exit(1 if any(row["outcome"] != "as expected" for row in rows) else 0)


def needs() -> str:
    """Return what this machine lacks."""
    if os.geteuid() != 0:
        return "root"
    tools = [tool for tool in ("mmdebstrap", "unshare", "chroot") if shutil.which(tool) is None]
    return f"{' '.join(tools)} (apt-get install mmdebstrap util-linux)" if tools else ""


def system(suite: str) -> Path:
    """Return the files of a minimal system, which is made once."""
    directory = KEPT / suite
    if not directory.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as scratch:
            archive = Path(scratch) / "system.tar"
            options = ["--quiet", "--variant=minbase", f"--include={PACKAGES}"]
            mirror = [os.environ["DEBIAN_MIRROR"]] if os.environ.get("DEBIAN_MIRROR") else []
            subprocess.run(["mmdebstrap", *options, suite, str(archive), *mirror], check=True)
            made = Path(scratch) / "system"
            made.mkdir(mode=0o755)
            subprocess.run(["tar", "-C", str(made), "--exclude=./dev/*", "-xpf", str(archive)], check=True)
            made.rename(directory)
    return directory


def tried(case: Case) -> dict[str, str | int]:
    """Run a case; return its row."""
    base = system(case.system)
    scratch = Path(tempfile.mkdtemp(dir=KEPT, prefix="run-"))
    try:
        checkout = scratch / "checkout" / case.checkout
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(checkout)], check=True)
        settings = {"CHECKOUT": str(checkout), **case.settings}
        if CACHE.is_dir() and not case.refusal:
            settings["CACHE"] = str(CACHE)
        if case.before:
            entered(case, base, scratch, {**settings, "CACHE": ""}, is_before=True).check_returncode()
        began = time.monotonic()
        done = entered(case, base, scratch, settings)
        seconds = round(time.monotonic() - began)
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", str(scratch)], check=False)
    return row_of(case, done, seconds)


def row_of(case: Case, done: subprocess.CompletedProcess[str], seconds: int) -> dict[str, str | int]:
    """Judge how a case ended; keep what was said."""
    (REPORTS / "fresh").mkdir(parents=True, exist_ok=True)
    (REPORTS / "fresh" / f"{case.name.replace(' ', '-')}.log").write_text(done.stdout)
    said = [text.strip() for text in done.stdout.splitlines() if text.strip() and not text.startswith("make")]
    is_right = done.returncode == 0
    if case.refusal:
        is_right = done.returncode != 0 and case.refusal in said[-1] and seconds <= REFUSED_WITHIN_S
    return {
        "case": case.name,
        "command": case.command.partition(" && ")[0],
        "as": "user" if case.uid else "root",
        "outcome": "as expected" if is_right else f"failed ({done.returncode})",
        "seconds": seconds,
        "last line": said[-1] if said else "",
    }


def entered(
    case: Case, base: Path, scratch: Path, settings: dict[str, str], *, is_before: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a case's command, or what comes before it as root; all that it starts ends with it."""
    namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    if not case.has_network:
        namespaces.append("--net")
    home = "/home/somebody" if case.uid else "/root"
    uid, command = (0, case.before) if is_before else (case.uid, case.command)
    enter = [str(Path(__file__).with_name("enter")), str(base), str(scratch), str(uid), home, command]
    return subprocess.run(
        ["unshare", *namespaces, *enter],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
    )


COLUMNS = ("case", "command", "as", "outcome", "seconds", "last line")


def line(row: dict[str, str | int]) -> str:
    """Return a row of the table."""
    return "| " + " | ".join(str(row[column]).replace("|", "\\|") for column in COLUMNS) + " |"


def write(rows: list[dict[str, str | int]]) -> None:
    """Write the table, and the same as JSON."""
    head = "| " + " | ".join(COLUMNS) + " |\n|" + " --- |" * len(COLUMNS)
    (REPORTS / "fresh.md").write_text("\n".join([head, *map(line, rows)]) + "\n")
    (REPORTS / "fresh.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
