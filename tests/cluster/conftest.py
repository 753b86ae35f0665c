"""One control plane for the session; a namespace for each test, guarded as ours are in production."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.kube import definitions
from tests.cluster.kube.binaries import (
    DEFINITIONS,
    folder,
    missing,
    missing_for_control_plane,
    missing_for_real_cluster,
)
from tests.cluster.kube.client import Client
from tests.cluster.kube.control_plane import ControlPlane
from tests.cluster.kube.kuberay import start_operator
from tests.cluster.kube.real_cluster import RealCluster

FAKE_NODES = 16
GPUS = 8
PRODUCT = "test.local/tlt:1"  # the image that stands for the product's own
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
Seconds = dict[str, dict[str, float]]
seconds: Seconds = {}
kept: list[Path] = []
numbers = itertools.count(1)


@pytest.fixture(scope="session", name="seconds")
def measured() -> Seconds:
    """What took how long, by subject and stage: told at the end."""
    return seconds


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """API server, controllers, scheduler and 16 fake nodes of 8 GPUs: pods are placed, and nothing runs in them."""
    if missing := missing_for_control_plane():
        pytest.skip(missing)
    with ControlPlane(kwok=FAKE_NODES) as running:
        seconds["control plane"] = running.seconds
        yield running
        keep_logs_of_failures(running, request.session)


@pytest.fixture(scope="session")
def schemas_folder(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The control plane knows all kinds of the chart; this is what kubeconform checks them by."""
    if absent := missing("helm", "kubeconform", DEFINITIONS):
        pytest.skip(absent)
    folder = tmp_path_factory.mktemp("schemas")
    definitions.install(control_plane, folder)
    return folder


@pytest.fixture(scope="session")
def real_cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """A cluster with one node whose pods really run, with this environment and this checkout inside, and 8 GPUs."""
    if missing := missing_for_real_cluster():
        pytest.skip(missing)
    with RealCluster(gpus=GPUS, names=[PRODUCT], mounts=[folder()]) as running:
        seconds["real cluster"] = running.seconds
        yield running
        keep_logs_of_failures(running, request.session)


@pytest.fixture
def real_ns(real_cluster: RealCluster, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A namespace of the test's own on the real cluster, where only `restricted` pods are admitted."""
    yield from namespace(real_cluster, request.node.name)


@pytest.fixture(scope="session")
def kuberay(real_cluster: RealCluster) -> RealCluster:
    """The real cluster, with RayServices that run: by the operator `$KUBERAY_OPERATOR` or our stand-in for it."""
    start_operator(real_cluster)
    return real_cluster


@pytest.fixture
def ns(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A namespace of the test's own on the control plane, where only `restricted` pods are admitted."""
    yield from namespace(control_plane, request.node.name)


@pytest.fixture(scope="module")
def module_ns(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Client]:
    """The same for all tests of a module."""
    yield from namespace(control_plane, request.path.stem)


def keep_logs_of_failures(cluster: ControlPlane, session: pytest.Session) -> None:
    if session.testsfailed:
        cluster.keep_logs = True
        kept.append(cluster.processes.logs)


def namespace(cluster: Client, test: str) -> Iterator[Client]:
    """A client of a new namespace named after a test; the namespace goes when the test ends."""
    words = re.sub("[^a-z0-9]+", "-", test.removeprefix("test_").lower())
    name = f"{words[:50].strip('-')}-{next(numbers)}"  # parametrized tests may share their first 50 characters
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": RESTRICTED}})
    yield cluster.inside(name)
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "cluster" in item.path.parts:
            item.add_marker(pytest.mark.cluster)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how long the clusters took, and what tests recorded: measured, and never asserted."""
    for cluster, stages in seconds.items():
        told = ", ".join(f"{stage} {taken:.1f} s" for stage, taken in stages.items())
        terminalreporter.write_line(f"{cluster}: {told}")
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        if report.when == "call" and report.user_properties:
            told = ", ".join(f"{name} {value}" for name, value in report.user_properties)
            terminalreporter.write_line(f"{report.location[2]}: {told}, {report.duration:.0f} s")
    for logs in kept:
        terminalreporter.write_line(f"logs of the cluster's processes are kept in {logs}")
