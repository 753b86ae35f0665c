"""What cannot work is refused by name on a live cluster, and leaves nothing behind."""

import pytest

from tests.cluster.eventually import eventually
from tests.cluster.kube.client import Client
from tests.cluster.kube.commands import CommandError
from tests.cluster.release import install, objects, ray_cluster, ray_service
from tests.fakes.ray_pods import worker_pod

pytestmark = pytest.mark.usefixtures("schemas_folder")

EXTERNAL = ("redis.mode=external", "redis.existingSecret.key=url", "networkPolicy.enabled=false")
SECRETS = tuple(f"tls.secrets.{name}=other" for name in ("gateway", "coordinator", "cache", "tuner", "worker"))

MODEL = {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}}

REFUSED = {
    "an unknown value": (["worker.replica=2"], "at '/worker': additional properties 'replica' not allowed"),
    "a wrong type": (["worker.replicas=two"], "at '/worker/replicas': got string, want integer"),
    "no claim": (["model.pvc.claim="], "model.pvc.claim: NAME"),
    "no secret of tokens": (
        ["auth.existingSecret=none"],
        'auth.existingSecret: Secret "none" does not exist in namespace',
    ),
    "no tokens in it": (["auth.existingSecret=other"], 'auth.existingSecret: the Secret has no key "tokens.yaml"'),
    "no secret of Redis": (
        [*EXTERNAL, "redis.existingSecret.name=none"],
        'redis.existingSecret.name: Secret "none" does not exist in namespace',
    ),
    "no URL in it": (
        [*EXTERNAL, "redis.existingSecret.name=other"],
        'redis.existingSecret.name: the Secret has no key "url"',
    ),
    "no certificate": (
        ["tls.mode=secret", *SECRETS, "tls.secrets.cache=none"],
        'tls.secrets.cache: Secret "none" does not exist in namespace',
    ),
    "no key in it": (["tls.mode=secret", *SECRETS], 'tls.secrets.cache: the Secret has no key "tls.crt"'),
}


@pytest.mark.parametrize(("settings", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_missing_or_wrong_is_named_and_nothing_is_installed(ns: Client, settings: list[str], said: str) -> None:
    ns.kubectl("create", "secret", "generic", "other", "--from-literal=key=value")
    before = objects(ns)
    with pytest.raises(CommandError) as caught:
        install(ns, "tiny-cpu", *settings)
    assert said in str(caught.value)
    assert not ns.helm("list", "--short").strip()
    assert objects(ns) == before


def test_without_a_default_storage_class_the_claim_says_so_and_workers_wait(ns: Client) -> None:
    install(ns, "plain")
    ns.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "model"}, "spec": MODEL})
    claim = "persistentvolumeclaim/rl-tlt-drafters"
    told = "no persistent volumes available for this claim and no storage class is set"
    eventually(lambda: told in ns.kubectl("events", "--for", claim))
    assert ns.json_of("get", claim)["status"]["phase"] == "Pending"
    assert "Set drafters.pvc.storageClassName" in ns.helm("get", "notes", "rl")
    cluster = ray_cluster(ray_service(ns))
    pod = worker_pod(cluster, cluster.spec["workerGroupSpecs"][0])
    del pod["metadata"]["ownerReferences"]  # of a Ray cluster that nobody made
    path = f"/api/v1/namespaces/{ns.namespace}/pods"
    name = ns.rest().create(path, pod)["metadata"]["name"]
    eventually(lambda: "unbound immediate PersistentVolumeClaims" in ns.kubectl("events", "--for", f"pod/{name}"))
