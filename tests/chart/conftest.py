"""Chart tests need Helm: in `$KUBE_BIN`, or built by tests/cluster/kube/build.sh."""

import pytest

from tests.cluster.kube.binaries import missing


@pytest.fixture(autouse=True)
def _helm() -> None:
    if absent := missing("helm"):
        pytest.skip(absent)
