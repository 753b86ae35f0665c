"""Nodes that do not exist (kwok): pods are scheduled to them, become Running and Ready at once, and do nothing."""

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
    add(client, *(gpu_node(f"gpu-{index}") for index in range(count)))


def add(client: Client, *nodes: dict[str, Any]) -> None:
    """Add nodes, once kwok runs; returns when all are Ready."""
    client.apply({"apiVersion": "v1", "kind": "List", "items": list(nodes)})
    client.kubectl("wait", "--for=condition=Ready", "node", "-l", "type=kwok", "--timeout=60s")


def gpu_node(name: str) -> dict[str, Any]:
    """A node as a GPU pool has them: tainted, so that only pods that tolerate the taint come."""
    made = cpu_node(name)
    made["spec"] = {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]}
    made["metadata"]["labels"] |= {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "node.kubernetes.io/instance-type": "gpu-8",
    }
    for amounts in made["status"].values():
        amounts["nvidia.com/gpu"] = str(GPUS)
    return made


def cpu_node(name: str) -> dict[str, Any]:
    """A node for every pod."""
    amounts = {"cpu": "128", "memory": "1Ti", "pods": "110"}
    labels = {
        "type": "kwok",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": labels},
        "status": {"allocatable": dict(amounts), "capacity": dict(amounts)},
    }
