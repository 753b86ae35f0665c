"""What the chart's service accounts may do, asked of a real API server with their own tokens."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import Object
from tests.cluster.eventually import eventually
from tests.cluster.kube.client import Client
from tests.cluster.kube.control_plane import ControlPlane
from tests.cluster.kube.rest import RestError
from tests.cluster.pods import python_pod
from tests.cluster.release import RELEASE, install

API = "/apis/authorization.k8s.io/v1"
COORDINATOR = "rl-tlt-coordinator"
STATE = f"{COORDINATOR}-state"
ALLOWED = {
    *(("", "pods", verb, "") for verb in ("get", "patch")),
    *(("", "events", verb, "") for verb in ("create", "patch")),
    ("", "configmaps", "create", ""),
    *(("", "configmaps", verb, STATE) for verb in ("get", "update")),
}
REFUSED = (
    ("", "pods", "delete", ""),
    ("", "pods", "update", ""),
    ("", "pods", "create", ""),
    ("", "pods/exec", "create", ""),
    ("", "pods/log", "get", ""),
    ("", "secrets", "get", "rl-tlt-tokens"),
    ("", "secrets", "list", ""),
    ("", "configmaps", "get", ""),
    ("", "configmaps", "update", COORDINATOR),
    ("", "configmaps", "delete", STATE),
    ("", "pods", "list", ""),
    ("", "serviceaccounts/token", "create", ""),
    ("ray.io", "rayservices", "patch", ""),
    ("coordination.k8s.io", "leases", "get", ""),
)
Rule = tuple[str, str, str, str]
Patched = Callable[[str, Object], None]


@pytest.fixture(scope="module")
def installed(module_ns: Client, schemas_folder: Path) -> Iterator[Client]:
    """A release, with the accounts that only `helm test` makes."""
    install(module_ns, "tiny-cpu")
    hooks = yaml.safe_load_all(module_ns.helm("get", "hooks", RELEASE))
    module_ns.apply(*(hook for hook in hooks if hook["kind"] == "ServiceAccount"))
    yield module_ns
    module_ns.helm("uninstall", RELEASE)


def rules(account: Client, namespace: str) -> set[Rule]:
    """All that an account may do in a namespace: group, resource, verb, name."""
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
    reply = account.rest().create(f"{API}/selfsubjectrulesreviews", {**review, "spec": {"namespace": namespace}})
    return {
        (group, resource, verb, name)
        for rule in reply["status"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or [""]
    }


def may(account: Client, rule: Rule, namespace: str | None) -> bool:
    """What the API server answers to `kubectl auth can-i`."""
    group, path, verb, name = rule
    resource, _, subresource = path.partition("/")
    asked = {"namespace": namespace, "group": group, "resource": resource, "subresource": subresource}
    spec = {"resourceAttributes": {**asked, "verb": verb, "name": name}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    reply = account.rest().create(f"{API}/selfsubjectaccessreviews", review)
    return bool(reply["status"]["allowed"])


def accounts(ns: Client) -> list[str]:
    return sorted(item["metadata"]["name"] for item in ns.items("serviceaccounts"))


def test_the_coordinator_may_do_exactly_what_it_needs(installed: Client, tmp_path: Path) -> None:
    space = installed.namespace or ""
    everybody = rules(installed.as_account("default", tmp_path), space)
    coordinator = installed.as_account(COORDINATOR, tmp_path)
    assert rules(coordinator, space) - everybody == ALLOWED
    assert rules(coordinator, "kube-system") == everybody
    assert [rule for rule in sorted(ALLOWED) if not may(coordinator, rule, space)] == []
    assert [rule for rule in REFUSED if may(coordinator, rule, space)] == []
    assert [rule for rule in sorted(ALLOWED) if may(coordinator, rule, "kube-system")] == []
    assert not may(coordinator, ("", "nodes", "list", ""), None)


def test_no_other_account_may_do_anything(installed: Client, tmp_path: Path) -> None:
    space = installed.namespace or ""
    everybody = rules(installed.as_account("default", tmp_path), space)
    others = [name for name in accounts(installed) if name not in {"default", COORDINATOR}]
    components = ("cache", "gateway", "head", "redis", "test", "tuner", "worker")
    assert others == [f"rl-tlt-{component}" for component in components]
    for name in others:
        account = installed.as_account(name, tmp_path)
        assert rules(account, space) == everybody
        assert [rule for rule in (*sorted(ALLOWED), *REFUSED) if may(account, rule, space)] == []


def refusal(patched: Patched, pod: str, patch: Object) -> str:
    try:
        patched(pod, patch)
    except RestError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def patched(installed: Client, tmp_path_factory: pytest.TempPathFactory) -> Patched:
    """Patches a pod of this release, or of nobody, as the coordinator."""
    own = {"app.kubernetes.io/name": "tlt", "app.kubernetes.io/instance": RELEASE}
    installed.apply(python_pod("ours", "pass", labels=own), python_pod("theirs", "pass"))
    coordinator = installed.as_account(COORDINATOR, tmp_path_factory.mktemp("account")).rest()

    def patch(pod: str, changes: Object) -> None:
        coordinator.merge(f"/api/v1/namespaces/{installed.namespace}/pods/{pod}", changes)

    # A policy takes effect some seconds after it was made.
    eventually(lambda: refusal(patch, "theirs", {"metadata": {"annotations": {"tlt.dev/epoch": "1"}}}))
    return patch


def test_the_coordinator_changes_its_own_labels_and_annotations(patched: Patched) -> None:
    annotations = {"tlt.dev/epoch": "1", "tlt.dev/drafter-version": "2"}
    patched("ours", {"metadata": {"labels": {"tlt.dev/role": "training"}, "annotations": annotations}})


@pytest.mark.parametrize(
    ("pod", "patch", "why"),
    [
        ("theirs", {"metadata": {"labels": {"tlt.dev/role": "training"}}}, "only pods of its own release"),
        ("ours", {"metadata": {"labels": {"app": "web"}}}, "only the label"),
        ("ours", {"metadata": {"labels": {"app.kubernetes.io/instance": "other"}}}, "only the label"),
        ("ours", {"metadata": {"labels": {"app.kubernetes.io/name": None}}}, "only the label"),
        ("ours", {"metadata": {"annotations": {"seen": "1"}}}, "only the annotations"),
        ("ours", {"metadata": {"finalizers": ["tlt.dev/stay"]}}, "neither the specification"),
        ("ours", {"spec": {"activeDeadlineSeconds": 1}}, "neither the specification"),
    ],
)
def test_the_coordinator_changes_nothing_else(patched: Patched, pod: str, patch: Object, why: str) -> None:
    assert why in refusal(patched, pod, patch)


def test_nothing_is_granted_for_the_whole_cluster(installed: Client, control_plane: ControlPlane) -> None:
    named: list[Object] = control_plane.items("clusterroles,clusterrolebindings", "-l", "app.kubernetes.io/name=tlt")
    subjects = [
        subject
        for binding in control_plane.items("clusterrolebindings")
        for subject in binding.get("subjects", [])
        if subject.get("namespace") == installed.namespace
    ]
    assert (named, subjects) == ([], [])
