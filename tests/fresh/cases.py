"""What is tried on a fresh machine, and what must come of it."""

from __future__ import annotations

from dataclasses import dataclass, field

DEMO = "make demo-quick"
INSTALL = "make install-demo && .venv/bin/tlt --help"
REFUSED_WITHIN_S = 40
"""With time to set up the system; a refusal itself takes seconds."""


@dataclass(frozen=True)
class Case:
    """One machine and one command."""

    name: str
    system: str = "bookworm"
    uid: int = 1000
    command: str = DEMO
    before: str = ""
    """Run in the system as root, before."""
    settings: dict[str, str] = field(default_factory=dict)
    """Of `enter`."""
    checkout: str = "tlt"
    has_network: bool = True
    refusal: str = ""
    """Part of the one line that is said if the command must be refused."""
    is_short: bool = False
    """Whether CI runs it."""


NO_VENV = "dpkg --purge --force-depends python3-venv python3.11-venv"
NEITHER = f"{NO_VENV} python3-pip"

CASES = (
    Case(name="install alone", command=INSTALL, is_short=True),
    Case(name="Debian 12, user"),
    Case(name="Debian 12, root", uid=0),
    Case(name="Debian 13 (Python 3.13), user", system="trixie"),
    Case(name="Debian 13 (Python 3.13), root", system="trixie", uid=0),
    Case(name="path with a space", checkout="my checkout", refusal="has a space", is_short=True),
    Case(name="read-only home", settings={"READ_ONLY": "1"}),
    Case(name="no python3-venv", command=INSTALL, before=NO_VENV),
    Case(name="neither venv nor pip", before=NEITHER, refusal="apt-get install python3-venv", is_short=True),
    Case(name="no network", has_network=False, refusal="Check the network", is_short=True),
    Case(name="a disk of 2 GB", settings={"SMALL": "1"}, refusal="12 GB are needed", is_short=True),
)
TESTS = (
    Case(name="all tests, user", command="make test"),
    Case(name="all tests, root", command="make test", uid=0),
)
