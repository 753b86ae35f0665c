"""Volumes in real pods: claims, configuration, secrets, tokens, scratch space."""

import json

from tests.cluster.eventually import eventually
from tests.cluster.kube.client import Client, Object
from tests.cluster.kube.real_cluster import RealCluster
from tests.cluster.kube.storage import folder_of
from tests.cluster.pods import finished, python_pod, with_volumes

CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
}
DATA = {"/data": {"persistentVolumeClaim": {"claimName": "data"}}}


def test_a_claim_outlives_its_pods_and_goes_when_it_is_deleted(real_cluster: RealCluster, real_ns: Client) -> None:
    real_ns.apply(CLAIM)
    write = "open('/data/kept', 'w').write('kept'); import os; print(oct(os.stat('/data').st_mode & 0o7777))"
    real_ns.apply(with_volumes(python_pod("writer", write), DATA))
    finished(real_ns, "writer")
    assert (folder_of(real_cluster, real_ns, "data") / "kept").read_text() == "kept"
    real_ns.kubectl("delete", "pod", "writer")
    real_ns.apply(with_volumes(python_pod("reader", "print(open('/data/kept').read())"), DATA))
    assert finished(real_ns, "reader").strip() == "kept"
    real_ns.kubectl("delete", "pod", "reader")
    real_ns.kubectl("delete", "pvc", "data")
    eventually(lambda: not real_cluster.items("persistentvolumes"))
    eventually(lambda: not list((real_cluster.folder / "volumes").iterdir()))


def test_settings_secrets_tokens_and_scratch_space_are_there(real_ns: Client) -> None:
    real_ns.kubectl("create", "configmap", "settings", "--from-literal=config.yaml=port: 1")
    real_ns.kubectl("create", "secret", "generic", "tls", "--from-literal=tls.key=secret")
    code = """
import json, os
open('/tmp/scratch', 'w').write('x'); open('/dev/shm/x', 'w').write('x')
read = lambda path: open(path).read()
print(json.dumps({
    'settings': read('/etc/tlt/config.yaml'), 'secret': read('/etc/tls/tls.key'),
    'token': len(read('/var/run/token/token').split('.')), 'name': read('/etc/pod/name'),
    'home': os.environ['POD'],
}))
"""
    volumes: dict[str, Object] = {
        "/etc/tlt": {"configMap": {"name": "settings"}},
        "/etc/tls": {"secret": {"secretName": "tls", "defaultMode": 0o440}},
        "/var/run/token": {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        "/etc/pod": {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        "/tmp": {"emptyDir": {}},  # noqa: S108 - a path in the pod
        "/dev/shm": {"emptyDir": {"medium": "Memory"}},  # noqa: S108 - a path in the pod
    }
    env = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    real_ns.apply(with_volumes(python_pod("volumes", code, env=env), volumes))
    found = json.loads(finished(real_ns, "volumes"))
    assert found == {"settings": "port: 1", "secret": "secret", "token": 3, "name": "volumes", "home": "volumes"}
