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
    home = "/home/somebody" if case.uid else "/root"
    with tempfile.TemporaryDirectory(dir=KEPT, prefix="run-") as scratch:
        checkout = Path(scratch) / "checkout" / case.checkout
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(checkout)], check=True)
        cache = subprocess.run(["uv", "cache", "dir"], capture_output=True, text=True, check=False).stdout.strip()
        settings = {"CHECKOUT": str(checkout), **case.settings}
        if cache and Path(cache).is_dir() and not case.refusal:
            settings["CACHE"] = cache
        if case.before:
            done = entered(base, Path(scratch), 0, home, case.before, {**settings, "CACHE": ""}, has_network=True)
            done.check_returncode()
            shutil.rmtree(Path(scratch) / "root")
        began = time.monotonic()
        done = entered(base, Path(scratch), case.uid, home, case.command, settings, has_network=case.has_network)
        seconds = round(time.monotonic() - began)
    (REPORTS / "fresh").mkdir(parents=True, exist_ok=True)
    (REPORTS / "fresh" / f"{case.name.replace(' ', '-')}.log").write_text(done.stdout)
    said = [text for text in done.stdout.splitlines() if text.strip()]
    last = next((text for text in reversed(said) if not text.startswith("make")), "")
    is_right = done.returncode == 0
    if case.refusal:
        is_right = done.returncode != 0 and case.refusal in last and seconds <= REFUSED_WITHIN_S
    return {
        "case": case.name,
        "command": case.command.partition(" && ")[0],
        "as": "user" if case.uid else "root",
        "outcome": "as expected" if is_right else f"failed ({done.returncode})",
        "seconds": seconds,
        "last line": last.strip(),
    }


def entered(
    base: Path, scratch: Path, uid: int, home: str, command: str, settings: dict[str, str], *, has_network: bool
) -> subprocess.CompletedProcess[str]:
    """Run a command in a system; all that it starts ends with it."""
    namespaces = [
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--propagation",
        "private",
        *([] if has_network else ["--net"]),
    ]
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
