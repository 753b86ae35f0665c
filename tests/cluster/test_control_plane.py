"""The control plane does what tests lean on, and leaves nothing behind."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cluster.eventually import eventually
from tests.cluster.kube.binaries import missing_for_control_plane
from tests.cluster.kube.client import Client, Object
from tests.cluster.kube.commands import CommandError
from tests.cluster.kube.control_plane import ControlPlane


def sleeper(name: str, *, gpus: int = 0, tolerant: bool = True, security: Object | None = None) -> Object:
    """A pod that `restricted` admits, unless `security` says otherwise."""
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    container = {
        "name": "main",
        "image": "example.test/any:1",
        "resources": {"limits": limits},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, **(security or {})},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}] if tolerant else [],
            "containers": [container],
        },
    }


def phases(ns: Client) -> list[str]:
    return sorted(pod["status"]["phase"] for pod in ns.items("pods"))


def why_pending(ns: Client, name: str) -> str:
    pod = ns.json_of("get", "pod", name)
    return "".join(condition.get("message", "") for condition in pod["status"].get("conditions", []))


def test_all_gpus_are_given_and_the_next_pod_waits(ns: Client) -> None:
    ns.apply({"apiVersion": "v1", "kind": "List", "items": [sleeper(f"worker-{i}", gpus=8) for i in range(16)]})
    eventually(lambda: phases(ns) == ["Running"] * 16)
    assert len({pod["spec"]["nodeName"] for pod in ns.items("pods")}) == 16
    ns.apply(sleeper("one-too-many", gpus=1))
    eventually(lambda: "Insufficient nvidia.com/gpu" in why_pending(ns, "one-too-many"))


def test_a_pod_that_tolerates_no_gpu_node_waits(ns: Client) -> None:
    ns.apply(sleeper("intolerant", tolerant=False))
    eventually(lambda: "untolerated taint" in why_pending(ns, "intolerant"))


@pytest.mark.parametrize(
    "security",
    [{"allowPrivilegeEscalation": True}, {"capabilities": {}}, {"runAsNonRoot": False}, {"privileged": True}],
    ids=lambda security: next(iter(security)),
)
def test_restricted_namespaces_refuse_pods_that_ask_for_more(ns: Client, security: Object) -> None:
    with pytest.raises(CommandError, match=r'violates PodSecurity "restricted|cannot set'):
        ns.apply(sleeper("greedy", security=security))


def test_a_service_account_may_do_what_its_role_says_and_no_more(ns: Client, tmp_path: Path) -> None:
    ns.kubectl("create", "serviceaccount", "reader")
    ns.kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
    ns.kubectl("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={ns.namespace}:reader")
    reader = ns.as_account("reader", tmp_path)
    assert eventually(lambda: json.loads(reader.get(f"/api/v1/namespaces/{ns.namespace}/pods")))["items"] == []
    with pytest.raises(CommandError, match="forbidden"):
        reader.kubectl("delete", "pod", "any")


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
