"""Values, commands and files named in the documentation exist."""

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
"""Suffixes of certificate names and file names."""
SCHEMA: Object = yaml.safe_load((CHART / "values.schema.json").read_text())


def values_in(page: str) -> set[str]:
    """Return the paths in backticks that start like a value of the chart."""
    paths = set(re.findall(r"`([A-Za-z]+(?:\.(?:[A-Za-z_]+|\*))+)`", page))
    return {path for path in paths if path.split(".")[0] in VALUES and not path.endswith(NO_VALUES)}


def exists(values: Any, keys: list[str]) -> bool:
    """Whether such a value exists; * matches any key."""
    if not keys or not isinstance(values, dict):
        return not keys
    if keys[0] == "*":
        return any(exists(value, keys[1:]) for value in values.values())
    if keys[0] not in values:
        return False
    if keys[0] in {"config", "trainer"} and keys[1:]:
        return any(_has(block, keys[1:]) for block in described(keys[0]))
    return exists(values[keys[0]], keys[1:])


def _has(block: Object, keys: list[str]) -> bool:
    return not keys or (keys[0] in block and _has(block[keys[0]], keys[1:]))


def described(name: str) -> list[Object]:
    """Return the schema's keys of `config`, or `trainer`, for each component."""
    return [_keys(part.get("properties", {}).get(name, {})) for part in SCHEMA["$defs"].values()]


def _keys(schema: Object) -> Object:
    block = next((choice for choice in schema.get("anyOf", []) if "properties" in choice), schema)
    return {key: _keys(inner) for key, inner in block.get("properties", {}).items()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_values_that_are_named_exist(page: Path) -> None:
    assert not {path for path in values_in(page.read_text()) if not exists(VALUES, path.split("."))}


def test_a_missing_value_is_detected() -> None:
    page = (
        "`worker.config.engine.gpu_memory` `worker.config.engine.speed` `tls.mode` `tls.level` `image.*.digest` "
        "`image.*.size`"
    )
    assert {path for path in values_in(page) if not exists(VALUES, path.split("."))} == {
        "worker.config.engine.speed",
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
