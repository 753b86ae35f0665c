"""Nodes that do not exist (kwok): pods are scheduled to them, become Running and Ready at once, and do nothing."""

import json
from pathlib import Path
from typing import Any

from tests.cluster.kube.binaries import binary
from tests.cluster.kube.client import Client
from tests.cluster.kube.processes import Processes

GPUS = 8
STAGES = Path(__file__).parent / "fake_stages.yaml"


def start(client: Client, processes: Processes, count: int, port: int) -> None:
    """Start kwok and give it `count` nodes of 8 GPUs; returns when all are Ready."""
    processes.spawn(
        binary("kwok"),
        f"--kubeconfig={client.kubeconfig}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--server-address=127.0.0.1:{port}",
        "--cidr=10.0.0.0/16",
        "--node-ip=127.0.0.1",
        "--node-lease-duration-seconds=40",
        f"--config={binary('kwok-stages.yaml')}",
        f"--config={STAGES}",
    )
    nodes = {"apiVersion": "v1", "kind": "List", "items": [node(index) for index in range(count)]}
    client.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(nodes))
    client.kubectl("wait", "--for=condition=Ready", "node", "-l", "type=kwok", "--timeout=60s")


def node(index: int) -> dict[str, Any]:
    """A node as a GPU pool has them: tainted, so that only pods that tolerate the taint come."""
    name = f"gpu-{index}"
    amounts = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    labels = {
        "type": "kwok",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": labels},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {"allocatable": amounts, "capacity": amounts},
    }
