"""The schema is generated from the models, closed everywhere, and consistent with values.yaml."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from chartvalues.chart import Chart
from chartvalues.filled import filled, model_of
from chartvalues.schema import chart_schema, settings_schema
from chartvalues.text import values_yaml
from tests.chart.rendering import CHART, VALUE_SETS, RenderError, render

GENERATOR = CHART.parent / "generate.py"


def objects(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object schema with its path."""
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield path, node
        for key, value in node.items():
            yield from objects(value, f"{path}/{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from objects(value, f"{path}/{index}")


def test_files_match_the_models() -> None:
    done = subprocess.run([sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_object_is_closed() -> None:
    found = list(objects(json.loads((CHART / "values.schema.json").read_text())))
    assert len(found) > 50
    for path, schema in found:
        if path == "/$defs/Everywhere":  # Helm hands a parent chart's global values to all its charts
            continue
        rest = schema.get("additionalProperties")
        # A mapping of names to values, such as labels, must declare the type of its values.
        assert rest is False or (isinstance(rest, dict) and {"type", "anyOf", "pattern"} & rest.keys()), path


def test_every_value_is_described() -> None:
    whole = chart_schema()
    for path, schema in objects(whole):
        for name, value in schema.get("properties", {}).items():
            block = whole["$defs"].get(value.get("$ref", "").rpartition("/")[2], {})
            assert value.get("description") or block.get("description"), f"{path}/{name}"


def test_global_values_are_accepted() -> None:
    assert render({"global": {"of": "the parent"}}).pods


def test_an_open_object_would_be_found() -> None:
    assert [path for path, _ in objects({"properties": {"a": {"type": "object"}}})] == ["/properties/a"]


def test_values_are_the_models_defaults() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert Chart.model_validate(values) == Chart()
    assert yaml.safe_load(values_yaml(Chart())) == values


def test_every_line_of_values_follows_its_meaning() -> None:
    lines = (CHART / "values.yaml").read_text().splitlines()[2:]
    for above, line in zip(["# --", *lines], lines, strict=False):
        if re.match(r" *[a-zA-Z]+:", line):
            assert above.lstrip().startswith("#"), line


@pytest.mark.parametrize("name", VALUE_SETS)
def test_value_sets_are_accepted_by_the_models(name: str) -> None:
    values = yaml.safe_load((CHART / "ci" / f"{name}.yaml").read_text())
    assert Chart.model_validate(values)


@pytest.mark.parametrize("service", ["gateway", "coordinator", "cache", "tuner", "worker", "trainer"])
def test_settings_are_those_of_the_service_less_what_the_chart_fills_in(service: str) -> None:
    whole = set(model_of(service).model_fields)
    assert set(settings_schema(service)["properties"]) == whole - {key for key in filled(service) if "." not in key}


def test_the_readme_lists_every_value() -> None:
    table = (CHART / "README.md").read_text()
    for key in (
        "worker.config",
        "worker.head.resources.requests",
        "tls.certManager.issuer.name",
        "networkPolicy.kuberay",
    ):
        assert f"| `{key}` |" in table


@pytest.mark.parametrize(
    ("values", "block"),
    [
        ({"image": None}, "image"),
        ({"gateway": {"service": None}}, "service"),
        ({"tls": {"generated": None}}, "generated"),
    ],
)
def test_a_block_that_is_null_is_refused_by_name(values: dict[str, Any], block: str) -> None:
    with pytest.raises(RenderError, match=block):
        render(values)
