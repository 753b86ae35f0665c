"""One installation of the suite for all tests of this folder."""

from collections.abc import Iterator

import pytest

from grafana.prometheus import Prometheus
from tests.cluster.conftest import namespace, seconds
from tests.cluster.kube.binaries import missing
from tests.cluster.kube.real_cluster import RealCluster
from tests.cluster.suite import prometheus
from tests.cluster.suite.installed import RELEASE, Suite, installed


@pytest.fixture(scope="module")
def suite(kuberay: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    """The tiny value set, installed and answering."""
    for ns in namespace(kuberay, "suite"):
        with installed(kuberay, ns, tmp_path_factory.mktemp("suite")) as running:
            seconds["helm install, real pods"] = running.seconds
            yield running


@pytest.fixture(scope="module")
def scraped(suite: Suite) -> Prometheus:
    """Prometheus in the cluster."""
    if absent := missing("prometheus"):
        pytest.skip(absent)
    return Prometheus(prometheus.start(suite.cluster, suite.ns, RELEASE, (suite.folder / "ca.crt").read_bytes()))
