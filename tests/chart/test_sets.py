"""All value sets: Helm's lint, and properties of everything rendered."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import CHART, VALUE_SETS, render
from tests.cluster.kube.binaries import binary

MAX_LINES = 120
TEMPLATES = sorted(path for path in (CHART / "templates").rglob("*") if path.is_file())


@pytest.mark.parametrize("name", VALUE_SETS)
def test_helm_lint_finds_nothing(name: str) -> None:
    file = CHART / "ci" / f"{name}.yaml"
    command = [binary("helm"), "lint", CHART, "--strict", "--quiet", "--values", file]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(CHART)))
def test_a_template_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_LINES


def test_every_template_is_rendered_by_some_value_set() -> None:
    rendered = {source for name in VALUE_SETS for source in render(name).sources}
    templates = {
        str(path.relative_to(CHART / "templates"))
        for path in TEMPLATES
        if path.suffix == ".yaml" and path.name != "validate.yaml"
    }
    files = {"monitoring/rules.yaml": "alerts/*.yaml", "monitoring/dashboards.yaml": "dashboards/*.json"}
    without = {template for template, pattern in files.items() if not list(CHART.glob(pattern))}
    assert templates - rendered - without == set()


@pytest.mark.parametrize("name", VALUE_SETS)
def test_objects_have_names_of_their_own_labels_and_a_namespace(name: str) -> None:
    rendered = render(name)
    names = [(item["kind"], item["metadata"]["name"]) for item in rendered.objects]
    assert len(names) == len(set(names))
    for item in rendered.objects:
        labels = item["metadata"]["labels"]
        if item["kind"].startswith("ValidatingAdmissionPolicy"):  # of the whole cluster
            assert item["metadata"]["name"].startswith("rollouts-rl-tlt-")
        else:
            assert item["metadata"]["namespace"] == "rollouts"
            assert item["metadata"]["name"].startswith("rl-tlt-")
        assert labels["app.kubernetes.io/name"] == "tlt"
        assert labels["app.kubernetes.io/instance"] == "rl"
        assert labels["app.kubernetes.io/component"]


def test_labels_of_ones_own_are_on_objects_and_pods() -> None:
    rendered = render("air-gapped")
    assert all(item["metadata"]["labels"]["team"] == "rl" for item in rendered.objects)
    assert all(pod.metadata["labels"]["team"] == "rl" for pod in rendered.pods.values() if pod.component != "test")


def test_a_release_named_after_the_suite_does_not_repeat_the_name() -> None:
    rendered = render(release="tlt")
    assert "tlt-gateway" in {item["metadata"]["name"] for item in rendered.objects if item["kind"] == "Deployment"}


@pytest.mark.parametrize("name", VALUE_SETS)
def test_selectors_select_the_pods_they_are_for(name: str) -> None:
    rendered = render(name)
    pods = [pod.metadata["labels"] for pod in rendered.pods.values()]
    for kind in ("Service", "PodDisruptionBudget", "PodMonitor", "Deployment", "StatefulSet"):
        for item in rendered.of(kind).values():
            selector = item["spec"]["selector"]
            required = dict(selector.get("matchLabels", selector))
            component = item["metadata"]["labels"]["app.kubernetes.io/component"]
            chosen = [labels for labels in pods if required.items() <= labels.items()]
            assert [labels["app.kubernetes.io/component"] for labels in chosen] == [component]


def test_images_combine_registry_version_and_digest() -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert render().pods["gateway"].main["image"] == f"tlt:{version}"
    assert render("one-node-8-gpus").pods["worker"].main["image"] == f"registry.example.org/rl/tlt-engine:{version}"
    images = {container["image"] for pod in render("air-gapped").pods.values() for container in pod.containers}
    assert images == {
        f"registry.internal:5000/rl/tlt@sha256:{'1' * 64}",
        f"registry.internal:5000/rl/tlt-engine@sha256:{'2' * 64}",
        f"registry.internal:5000/redis@sha256:{'3' * 64}",
    }
