"""The network of a real node: one namespace with a way in from this host, and no way out of it."""

import json
from pathlib import Path

from tests.cluster.kube.commands import attempt, run

HOST_IP, NODE_IP = "10.245.0.1", "10.245.0.2"
POD_NET, GATEWAY = "10.244.0.0/24", "10.244.0.1"
LINK, BRIDGE = "kube-host", "cni0"
# The kubelet sets these for the whole machine; `remove` puts them back.
SYSCTLS = tuple(Path("/proc/sys", key) for key in ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"))


class Network:
    """
    A network namespace whose pods and services this host reaches over a veth pair.

    Nothing can leave it: it has no default route. On the host `unreachable` routes below the cluster's own stay
    behind on purpose: a client that still calls a cluster that is gone must not reach the machine's default route.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def prefix(self) -> tuple[str, ...]:
        """What runs a command inside."""
        return ("nsenter", f"--net=/run/netns/{self.name}")

    def create(self, saved: Path, pods: str, services: str) -> None:
        """Make the namespace and the routes to these two ranges; kernel settings are remembered in `saved`."""
        saved.write_text(json.dumps([file.read_text() for file in SYSCTLS]))
        for net in ("10.244.0.0/15", services):
            attempt("ip", "route", "add", "unreachable", net, "metric", "4294967295")
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", LINK, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "addr", "add", f"{HOST_IP}/30", "dev", LINK)
        run("ip", "link", "set", LINK, "up")
        for net in (pods, services):
            run("ip", "route", "add", net, "via", NODE_IP, "dev", LINK)
        self._inside()

    def remove(self, saved: Path) -> None:
        """Remove it, and give the machine its kernel settings back. Does nothing twice."""
        attempt("ip", "link", "del", LINK)
        attempt("ip", "netns", "del", self.name)
        if saved.exists():
            for file, value in zip(SYSCTLS, json.loads(saved.read_text()), strict=True):
                file.write_text(value)
            saved.unlink()

    def _inside(self) -> None:
        inside = ("ip", "-n", self.name)
        run(*inside, "addr", "add", f"{NODE_IP}/30", "dev", "eth0")
        for device in ("lo", "eth0"):
            run(*inside, "link", "set", device, "up")
        # The pods' bridge, before the first pod, so that DNS can listen on it.
        run(*inside, "link", "add", BRIDGE, "type", "bridge")
        run(*inside, "addr", "add", f"{GATEWAY}/24", "dev", BRIDGE)
        run(*inside, "link", "set", BRIDGE, "up")
        for setting in ("net.ipv4.ip_forward=1", "net.bridge.bridge-nf-call-iptables=1"):
            run(*self.prefix, "sysctl", "-q", "-w", setting)
