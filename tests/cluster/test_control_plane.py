"""The control plane does what tests lean on, and leaves nothing behind."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cluster.kube.binaries import missing_for_control_plane
from tests.cluster.kube.client import Client, Object
from tests.cluster.kube.commands import CommandError
from tests.cluster.kube.control_plane import ControlPlane


def sleeper(name: str, *, security: Object) -> Object:
    """A pod that `restricted` would admit without `security`."""
    container = {
        "name": "main",
        "image": "example.test/any:1",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, **security},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
        },
    }


@pytest.mark.parametrize(
    "security",
    [{"allowPrivilegeEscalation": True}, {"capabilities": {}}, {"runAsNonRoot": False}, {"privileged": True}],
    ids=lambda security: next(iter(security)),
)
def test_restricted_namespaces_refuse_pods_that_ask_for_more(ns: Client, security: Object) -> None:
    with pytest.raises(CommandError, match=r'violates PodSecurity "restricted|cannot set'):
        ns.apply(sleeper("greedy", security=security))


def test_a_control_plane_leaves_no_process_and_no_file() -> None:
    if missing := missing_for_control_plane():
        pytest.skip(missing)
    with ControlPlane() as cluster:
        pids = [process["pid"] for process in json.loads((cluster.folder / "processes.json").read_text())]
        assert len(pids) == 4
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not cluster.folder.exists()


def test_a_start_that_is_interrupted_leaves_only_logs() -> None:
    if missing := missing_for_control_plane():
        pytest.skip(missing)

    class Interrupted(ControlPlane):
        def reached(self, stage: str) -> None:
            self.pids = [process["pid"] for process in json.loads((self.folder / "processes.json").read_text())]
            raise KeyboardInterrupt

    cluster = Interrupted()
    with pytest.raises(KeyboardInterrupt), cluster:
        pass
    assert len(cluster.pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in cluster.pids)
    assert [left.name for left in cluster.folder.iterdir()] == ["logs"]
    shutil.rmtree(cluster.folder)
