"""`python -m grafana.write DIRECTORY [--check]`: write the dashboards as JSON, for the chart or for import."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.bubbles import bubbles
from grafana.drafter import drafter
from grafana.health import health
from grafana.rollout import rollout
from grafana.speculation import speculation

BOARDS: Mapping[str, Callable[[], Dashboard]] = {
    "bubbles": bubbles,
    "rollout": rollout,
    "speculation": speculation,
    "drafter": drafter,
    "health": health,
}


def texts() -> dict[str, str]:
    """Return the JSON of every dashboard, by file name."""
    encoder = JSONEncoder(sort_keys=True, indent=2)
    return {f"{name}.json": encoder.encode(make()) + "\n" for name, make in BOARDS.items()}


def stale(directory: Path) -> list[str]:
    """Return the files of a directory that differ from what the code generates."""
    expected, found = texts(), {path.name: path.read_text() for path in directory.glob("*.json")}
    return sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))


def main(arguments: list[str]) -> int:
    """Write the dashboards; with --check, compare instead and return 1 if any differs."""
    directory = Path(arguments[0])
    if "--check" in arguments:
        if different := stale(directory):
            print(f"outdated files in {directory}: {', '.join(different)}; run make dashboards")
        return bool(different)
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts().items():
        (directory / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
