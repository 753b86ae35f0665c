"""`python -m tests.chart.rules ALERTS DIRECTORY`: write all rules as one group, together with their tests."""

import sys
from pathlib import Path
from typing import Any

import yaml


def rules(alerts: Path) -> dict[str, Any]:
    """Return every rule by file name."""
    return {path.stem: yaml.safe_load(path.read_text()) for path in sorted(alerts.glob("*.yaml"))}


def assemble(alerts: Path, directory: Path) -> Path:
    """Write DIRECTORY/alerts.yaml, copy the tests that refer to it, and return its path."""
    (directory / "tests").mkdir(parents=True, exist_ok=True)
    for test in sorted((alerts / "tests").glob("*.yaml")):
        (directory / "tests" / test.name).write_text(test.read_text())
    file = directory / "alerts.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "tlt", "rules": [*rules(alerts).values()]}]}, sort_keys=False))
    return file


if __name__ == "__main__":
    print(assemble(Path(sys.argv[1]), Path(sys.argv[2])))  # noqa: T201
