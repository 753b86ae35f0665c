"""`python -m tests.chart.rules ALERTS DIRECTORY`: all rules in one group, beside their tests."""

import sys
from pathlib import Path
from typing import Any

import yaml


def rules(alerts: Path) -> dict[str, Any]:
    """Every rule by the name of its file."""
    return {path.stem: yaml.safe_load(path.read_text()) for path in sorted(alerts.glob("*.yaml"))}


def assemble(alerts: Path, directory: Path) -> Path:
    """Write DIRECTORY/alerts.yaml and copy the tests, which name it; return it."""
    (directory / "tests").mkdir(parents=True, exist_ok=True)
    for test in sorted((alerts / "tests").glob("*.yaml")):
        (directory / "tests" / test.name).write_text(test.read_text())
    file = directory / "alerts.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "tlt", "rules": [*rules(alerts).values()]}]}, sort_keys=False))
    return file


if __name__ == "__main__":
    print(assemble(Path(sys.argv[1]), Path(sys.argv[2])))  # noqa: T201
