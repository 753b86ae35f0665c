"""All inputs: the lists `CASES` of the modules in `cases`."""

from importlib import import_module
from pathlib import Path

from tests.hostile.case import Call, Case
from tests.hostile.log import Log

CASES = Path(__file__).parent / "cases"


def inputs() -> list[Case | Call | Log]:
    """Return all inputs, in the order of their files."""
    found: list[Case | Call | Log] = []
    for path in sorted(CASES.glob("*.py")):
        found += import_module(f"tests.hostile.cases.{path.stem}").CASES
    return found
