"""`python -m tlt_lab.grafana.write DIRECTORY [--check]`: the dashboards as JSON, for the chart or for importing."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from tlt_lab.grafana.bubbles import bubbles
from tlt_lab.grafana.drafter import drafter
from tlt_lab.grafana.health import health
from tlt_lab.grafana.rollout import rollout
from tlt_lab.grafana.speculation import speculation

BOARDS: Mapping[str, Callable[[], Dashboard]] = {
    "bubbles": bubbles,
    "rollout": rollout,
    "speculation": speculation,
    "drafter": drafter,
    "health": health,
}


def texts() -> dict[str, str]:
    """Every dashboard as it is committed, by file name."""
    encoder = JSONEncoder(sort_keys=True, indent=2)
    return {f"{name}.json": encoder.encode(make()) + "\n" for name, make in BOARDS.items()}


def stale(directory: Path) -> list[str]:
    """Files of a directory that are not what the code says."""
    wanted, there = texts(), {path.name: path.read_text() for path in directory.glob("*.json")}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def main(arguments: list[str]) -> int:
    """Write, or with --check compare."""
    directory = Path(arguments[0])
    if "--check" in arguments:
        if different := stale(directory):
            print(f"run make dashboards: {', '.join(different)} in {directory} are not what the code says")
        return bool(different)
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts().items():
        (directory / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
