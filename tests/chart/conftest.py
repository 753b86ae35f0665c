"""Chart tests need Helm: `$KUBE_BIN`, or what tests/cluster/kube/build.sh made."""

import pytest

from tests.cluster.kube.binaries import missing


@pytest.fixture(autouse=True)
def _helm() -> None:
    if absent := missing("helm"):
        pytest.skip(absent)
