"""What the pages for people name exists: values, commands, files."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.rendering import CHART, Object

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "docs/kubernetes.md",
    ROOT / "README.md",
    CHART / "README.md",
    *sorted((CHART / "runbooks").glob("*.md")),
)
VALUES: Object = yaml.safe_load((CHART / "values.yaml").read_text())
NO_VALUES = (".tlt.internal", ".crt", ".key")
"""Ends of names of certificates and of files."""
SCHEMA: Object = yaml.safe_load((CHART / "values.schema.json").read_text())


def of_values(page: str) -> set[str]:
    """Paths in backticks that begin like a value of the chart."""
    paths = set(re.findall(r"`([A-Za-z]+(?:\.(?:[A-Za-z_]+|\*))+)`", page))
    return {path for path in paths if path.split(".")[0] in VALUES and not path.endswith(NO_VALUES)}


def found(values: Any, keys: list[str]) -> bool:
    """Whether there is such a value; * is any key."""
    if not keys or not isinstance(values, dict):
        return not keys
    if keys[0] == "*":
        return any(found(value, keys[1:]) for value in values.values())
    if keys[0] not in values:
        return False
    if keys[0] in {"config", "trainer"} and keys[1:]:
        return keys[1] in described(keys[0])
    return found(values[keys[0]], keys[1:])


def described(name: str) -> set[str]:
    """Keys the schema knows of `config`, or `trainer`, of any component."""
    parts = [part.get("properties", {}).get(name, {}) for part in SCHEMA["$defs"].values()]
    return {key for part in parts for key in part.get("properties", {})}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_values_that_are_named_exist(page: Path) -> None:
    assert not {path for path in of_values(page.read_text()) if not found(VALUES, path.split("."))}


def test_a_value_that_is_not_there_is_noticed() -> None:
    page = "`worker.config.gpu_memory` `worker.config.speed` `tls.mode` `tls.level` `image.*.digest` `image.*.size`"
    assert {path for path in of_values(page) if not found(VALUES, path.split("."))} == {
        "worker.config.speed",
        "tls.level",
        "image.*.size",
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_are_linked_exist(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_that_are_named_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = re.findall(r"`make ([a-z -]+)`|^make ([a-z-]+)", page.read_text(), flags=re.MULTILINE)
    assert {target for several in named for part in several for target in part.split()} <= targets
