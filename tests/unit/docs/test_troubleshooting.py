"""What the page on troubleshooting tells people to look for exists: log events, metrics, alerts, keys and commands."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from tlt_common.config.entry import service_entry
from tlt_common.config.explain import explain
from tlt_common.telemetry import metrics

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/troubleshooting.md").read_text()
NAMED = sorted(set(re.findall(r"`([^`\n]+)`", PAGE)))
SERVICES = ("gateway", "worker", "cache", "trainer", "tuner", "coordinator")
EVENT = re.compile(r"\blog\.(?:info|warning|error|debug)\(\s*\"([a-z_]+)\"")
OF_CONFIG_JSON = {"quantization_config", "rope_parameters", "max_position_embeddings", "save_pretrained"}
OF_RUNS = {"liveness_s"}


def events() -> set[str]:
    """Of all log lines in the code, also where the name is chosen by a condition."""
    sources = [path.read_text() for folder in ("services", "tlt_common") for path in (ROOT / folder).rglob("*.py")]
    return {name for text in sources for name in EVENT.findall(text)}


def keys(service: str) -> Iterator[str]:
    """Of a service's configuration, with those of nested models by dots."""
    model: type[BaseModel] = service_entry(service).keys
    for line in explain(model):
        yield line.split()[0].rstrip(":") if line and not line[0].isspace() else ""


def matching(pattern: str) -> list[str]:
    return [name for name in NAMED if re.fullmatch(pattern, name)]


@pytest.mark.parametrize("name", matching(r"tlt_[a-z_]+"))
def test_a_metric_exists(name: str) -> None:
    known = {collector._name for collector in vars(metrics).values() if hasattr(collector, "_name")}
    assert name in known


@pytest.mark.parametrize("name", matching(r"(?!tlt_)[a-z]+(_[a-z]+)+"))
def test_an_event_is_logged(name: str) -> None:
    assert name in events() | OF_CONFIG_JSON | OF_RUNS


@pytest.mark.parametrize("name", matching(rf"({'|'.join(SERVICES)})\.[a-z_.]+"))
def test_a_key_exists(name: str) -> None:
    service, _, key = name.partition(".")
    assert key in set(keys(service))


@pytest.mark.parametrize("name", matching(r"Tlt[A-Za-z]+"))
def test_an_alert_has_a_runbook(name: str) -> None:
    assert (ROOT / f"deploy/helm/tlt/runbooks/{name}.md").is_file()


def test_every_alert_is_named() -> None:
    alerts = {path.stem for path in (ROOT / "deploy/helm/tlt/alerts").glob("*.yaml")}
    assert alerts <= set(NAMED)


def test_every_table_says_what_to_look_at_and_what_to_do() -> None:
    tables = re.findall(r"^\| you see \| look at \| do \|$", PAGE, re.MULTILINE)
    assert len(tables) == len(re.findall(r"^## ", PAGE, re.MULTILINE)) == 8
