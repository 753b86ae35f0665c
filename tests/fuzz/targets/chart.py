"""Values of the Helm chart: rendered, or refused by the schema or with a message of the chart's own."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.cluster.kube.binaries import binary, missing
from tests.fuzz import json_texts
from tests.fuzz.target import HarmError, Subject, Target

CHART = Path(__file__).parents[3] / "deploy/helm/tlt"
RENDER_S = 60.0
DEFECTS = (
    "nil pointer",
    "can't evaluate",
    "wrong type for value",
    "error calling",
    "YAML parse error",
    "panic",
    "runtime error",
)
"""Messages of a template that failed on its values, instead of refusing them."""


def _skipped() -> str:
    return missing("helm") or ""


def is_defect(said: str) -> bool:
    """Whether Helm failed with a defect of a template, and not with a refusal of values."""
    return "Error: " not in said or any(defect in said for defect in DEFECTS)


@contextmanager
def _open(directory: Path) -> Iterator[Subject]:
    values = directory / "values.yaml"
    sets: list[Any] = [yaml.safe_load(file.read_text()) for file in sorted((CHART / "ci").glob("*.yaml"))]
    sets.append(yaml.safe_load((CHART / "values.yaml").read_text()))

    def feed(document: Any) -> None:
        values.write_text(yaml.safe_dump(document))
        command = [binary("helm"), "template", "rl", CHART, "--values", values]
        done = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, check=False, timeout=RENDER_S
        )
        if done.returncode == 0:
            list(yaml.safe_load_all(done.stdout))
        elif is_defect(done.stderr):
            raise HarmError(done.stderr.strip())

    yield Subject(inputs=st.one_of([json_texts.documents(one) for one in sets]), feed=feed, show=yaml.safe_dump)


TARGETS = (Target(name="chart.values", open=_open, skipped=_skipped, weight=0.02),)
