"""What makes a node of this machine: kubelet, kube-proxy, CoreDNS, and GPUs that do not exist."""

import json
import os
from pathlib import Path

from tests.cluster.kube.binaries import binary
from tests.cluster.kube.control_plane import POD_CIDR, ControlPlane
from tests.cluster.kube.network import GATEWAY, NODE_IP

NODE = "real-0"
# A folder of our own in every cgroup hierarchy: what is in it is ours, and may be ended.
CGROUP = "tlt-kube"
PLUGINS = Path("/var/lib/kubelet/device-plugins")  # fixed in the kubelet
ZERO = "0s"
CPU_SHARES = 1024
"""Per core, for all pods: as the kubelet sets one level below. Else all pods together weigh as much as one session."""


def start_kubelet(cluster: ControlPlane, home: Path, runtime: Path) -> None:
    """Start the kubelet against the runtime's socket; it registers itself as the node."""
    home.mkdir()
    for hierarchy in hierarchies():
        (hierarchy / CGROUP).mkdir(exist_ok=True)
        if (shares := hierarchy / CGROUP / "cpu.shares").exists():
            shares.write_text(str(CPU_SHARES * (os.cpu_count() or 1)))
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(cluster.ca)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{runtime}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        "clusterDNS": [GATEWAY],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "podLogsDir": str(home / "pod-logs"),
        "volumePluginDir": str(home / "plugins"),
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "4s",
        "healthzPort": 10248,
        "healthzBindAddress": "127.0.0.1",
        "shutdownGracePeriod": ZERO,
    }
    (home / "config.json").write_text(json.dumps(config))
    user = cluster.user("kubelet", f"/O=system:nodes/CN=system:node:{NODE}")
    (PLUGINS / "kubelet.sock").unlink(missing_ok=True)  # an old one would be taken for the new
    cluster.processes.spawn(
        binary("kubelet"),
        *(f"--config={home / 'config.json'}", f"--kubeconfig={user}", f"--root-dir={home / 'root'}"),
        *(f"--cert-dir={home / 'pki'}", f"--hostname-override={NODE}", f"--node-ip={NODE_IP}"),
    )


def start_proxy(cluster: ControlPlane) -> None:
    """Start kube-proxy, which makes Services reachable with nftables."""
    user = cluster.user("proxy", "/CN=system:kube-proxy")
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": POD_CIDR,
        "hostnameOverride": NODE,
        "clientConnection": {"kubeconfig": str(user)},
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": ZERO, "tcpCloseWaitTimeout": ZERO},
        "nftables": {"minSyncPeriod": "0.2s", "masqueradeAll": False},
    }
    (cluster.folder / "proxy.json").write_text(json.dumps(config))
    cluster.processes.spawn(binary("kube-proxy"), f"--config={cluster.folder / 'proxy.json'}")


def start_dns(cluster: ControlPlane) -> None:
    """Start CoreDNS for names of the cluster; any other name is refused, for nothing leads out."""
    corefile = cluster.folder / "Corefile"
    zone = f"kubernetes cluster.local {{\n  kubeconfig {cluster.kubeconfig}\n }}"
    corefile.write_text(f".:53 {{\n bind {GATEWAY}\n errors\n {zone}\n}}\n")
    cluster.processes.spawn(binary("coredns"), "-conf", corefile)


def start_gpus(cluster: ControlPlane, count: int) -> None:
    """Offer `nvidia.com/gpu` devices: a pod that asks for some finds their numbers in NVIDIA_VISIBLE_DEVICES."""
    # The kubelet empties the folder when it starts: wait for its socket.
    cluster.processes.wait("the kubelet", (PLUGINS / "kubelet.sock").is_socket)
    cluster.processes.spawn(binary("fakegpu"), PLUGINS, count)


def hierarchies() -> list[Path]:
    """The cgroup hierarchies of this machine: one with version 2, one a controller with version 1."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(target) for _, target, kind, *_ in mounts if kind in {"cgroup", "cgroup2"}]
