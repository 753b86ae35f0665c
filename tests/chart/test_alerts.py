"""Alerts fire when they should and not otherwise, query exported metrics, and explain how to act."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import promql
from tests.chart.rules import assemble, rules
from tests.cluster.kube.binaries import binary, missing

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "tlt"
ALERTS, RUNBOOKS = CHART / "alerts", CHART / "runbooks"
RULES = rules(ALERTS)
SEVERITIES = {"critical", "warning", "info"}
HEADINGS = ["## Symptom", "## Impact", "## Diagnosis", "## Mitigation"]

each = pytest.mark.parametrize("name", RULES)
needs_promtool = pytest.mark.skipif(missing("promtool") is not None, reason=missing("promtool") or "")


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run([binary("promtool"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_alert_has_a_runbook_and_a_test() -> None:
    assert RULES
    assert {path.stem for path in RUNBOOKS.iterdir()} == RULES.keys()
    assert {path.name for path in (ALERTS / "tests").iterdir()} == {f"{name}_test.yaml" for name in RULES}


@each
def test_a_rule_is_complete(name: str) -> None:
    rule = RULES[name]
    assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
    assert rule["alert"] == name
    assert name.startswith("Tlt")
    assert rule["labels"]["severity"] in SEVERITIES
    notes = rule["annotations"]
    assert notes.keys() == {"summary", "description", "runbook"}
    assert notes["runbook"] == f"runbooks/{name}.md"
    assert notes["description"].endswith(".")


@each
def test_a_rule_queries_exported_metrics(name: str) -> None:
    expr, known = RULES[name]["expr"], promql.exported()
    found = list(promql.series(expr))
    assert found
    for metric, matched in found:
        assert metric in known, metric
        assert matched <= known[metric], metric
    labels = {label for metric, _ in found for label in known[metric]} | promql.TARGET_LABELS
    assert promql.grouped(expr) <= labels
    # A new series that starts above zero shows no increase; such rules use its value as is.
    assert promql.bare_counters(expr) == [] or ("unless" in expr and "offset" in expr)


@each
def test_releases_are_distinguished_and_texts_use_remaining_labels(name: str) -> None:
    rule = RULES[name]
    by = re.findall(r"\bby \(([^)]*)\)", rule["expr"])
    assert by
    assert all({"namespace", "release"} <= {label.strip() for label in labels.split(",")} for labels in by)
    named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["description"]))
    assert named <= {label.strip() for label in by[0].split(",")}


@each
def test_a_runbook_has_actions_and_valid_references(name: str) -> None:
    text = (RUNBOOKS / f"{name}.md").read_text()
    assert text.startswith(f"# {name}\n")
    assert [line for line in text.splitlines() if line.startswith("## ")] == HEADINGS
    assert f"Severity: {RULES[name]['labels']['severity']}." in text
    assert text.count("\n- **") >= 2
    assert set(re.findall(r"\bTlt[A-Z]\w+", text)) <= RULES.keys()
    for metric, _ in promql.series(text):
        assert metric in promql.exported()


@each
def test_a_test_covers_firing_and_not_firing(name: str) -> None:
    tests: Any = yaml.safe_load((ALERTS / "tests" / f"{name}_test.yaml").read_text())["tests"]
    outcomes = [bool(case["alert_rule_test"][0]["exp_alerts"]) for case in tests]
    assert set(outcomes) == {False, True}
    assert all(case["alert_rule_test"][0]["alertname"] == name for case in tests)


@needs_promtool
def test_promtool_accepts_all_rules(tmp_path: Path) -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", assemble(ALERTS, tmp_path))


@needs_promtool
@each
def test_a_rule_fires_when_it_should_and_only_then(name: str, tmp_path: Path) -> None:
    assemble(ALERTS, tmp_path)
    promtool("test", "rules", tmp_path / "tests" / f"{name}_test.yaml")
