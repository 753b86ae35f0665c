"""
Generates values.yaml, values.schema.json and the README's table from the models, and writes the project's version into
Chart.yaml: `python deploy/helm/generate.py`.

With --check nothing is written; files that differ are named and the exit code is 1.
"""

import json
import re
import sys
import tomllib
from pathlib import Path

from chartvalues.chart import Chart
from chartvalues.schema import chart_schema
from chartvalues.text import readme, values_yaml

CHART = Path(__file__).parent / "tlt"
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def versioned(metadata: str) -> str:
    """Return the text of Chart.yaml with the project's version as that of the chart and of what it installs."""
    version = tomllib.loads(PROJECT.read_text())["project"]["version"]
    return re.sub(r"(?m)^(version|appVersion): .*$", rf"\g<1>: {version}", metadata)


def main() -> int:
    """Write the files, or compare them and return 1 if any differs."""
    made = {
        CHART / "Chart.yaml": versioned((CHART / "Chart.yaml").read_text()),
        CHART / "values.yaml": values_yaml(Chart()),
        CHART / "values.schema.json": json.dumps(chart_schema(), indent=1) + "\n",
        CHART / "README.md": readme(Chart(), (CHART / "README.md").read_text()),
    }
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    if "--check" not in sys.argv[1:]:
        for path in stale:
            path.write_text(made[path])
        return 0
    for path in stale:
        print(f"{path} does not match the models; run: make schema", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
