"""A cluster whose pods really run: the control plane and one node of this machine, in one network namespace."""

import fcntl
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.cluster.kube import images, kubelet, leftovers, storage
from tests.cluster.kube.binaries import folder as binaries
from tests.cluster.kube.commands import CommandError
from tests.cluster.kube.containerd import Containerd
from tests.cluster.kube.control_plane import POD_CIDR, SERVICE_CIDR, ControlPlane
from tests.cluster.kube.network import NODE_IP, Network

ROOT = Path(__file__).parents[3]
# Addresses and the kubelet's plug-in folder are fixed: one real cluster a machine. It holds the folder of the running
# one, so that the next one can remove what a killed session left.
LOCK = Path("/run/tlt-kube.lock")
LOCK_S = 240.0
NETWORK = Network("tlt-kube")
PATH = f"PATH={binaries()}:{binaries()}/cni:/usr/sbin:/usr/bin:/sbin:/bin"
READY = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
GPUS = r"jsonpath={.status.allocatable.nvidia\.com/gpu}"


class RealCluster(ControlPlane):
    """
    A control plane and one real node; needs root. Waits until no other real cluster runs on this machine.

    Pods find /usr, this Python, its environment and this checkout where this machine has them, read-only.

    Args:
        mounts: More folders of this host to bind into every container.
        names: Images that stand for the product's own (entry point `tlt`), besides `test.local/python:1`.
        gpus: Pretended `nvidia.com/gpu` devices of the node.
        kwok: Fake nodes of 8 GPUs each beside the real one.
    """

    network = NETWORK

    def __init__(self, *, mounts: Sequence[Path] = (), names: Sequence[str] = (), gpus: int = 0, kwok: int = 0) -> None:
        super().__init__(kwok=kwok, prefix=(*NETWORK.prefix, "env", PATH), host=NODE_IP)
        own = (Path("/usr"), Path(sys.base_prefix), ROOT, Path(sys.prefix))
        self._containerd = Containerd(self.folder / "containerd", list(dict.fromkeys([*own, *mounts])))
        self._names, self._gpus = (images.PYTHON, *names), gpus
        self._lock = LOCK.open("a+")

    def start(self) -> None:
        self._take_lock()
        self._began = time.monotonic()
        NETWORK.create(self.folder / "sysctls.json", POD_CIDR, SERVICE_CIDR)
        self._containerd.start(self.processes, self._names)
        self.reached("containerd and images")
        self.start_control_plane()
        kubelet.start_kubelet(self, self.folder / "kubelet", self._containerd.socket)
        kubelet.start_proxy(self)
        kubelet.start_dns(self)
        storage.start(self, kubelet.NODE)
        if self._gpus:
            kubelet.start_gpus(self, self._gpus)
        self.processes.wait("the node", lambda: self.kubectl("get", "node", kubelet.NODE, "-o", READY) == "True")
        if self._gpus:
            gpus = str(self._gpus)
            self.processes.wait("GPUs", lambda: self.kubectl("get", "node", kubelet.NODE, "-o", GPUS) == gpus)
        self.reached("node ready")

    def end(self) -> None:
        """Let the kubelet end the pods and give back their networks; then end and remove whatever is left."""
        self.processes.stop("kube-controller-manager", "kube-scheduler")  # or they would make pods again
        if "node ready" in self.seconds:
            with suppress(CommandError):
                self.kubectl("delete", "pods", "--all-namespaces", "--all", "--now", "--timeout=20s")
        self.processes.stop("kubelet")
        self._containerd.end_containers()
        super().end()
        leftovers.remove(self.folder, NETWORK)
        self._lock.truncate(0)
        self._lock.close()

    def _take_lock(self) -> None:
        end = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise TimeoutError(f"another real cluster runs on this machine: {LOCK.read_text()}") from None
                time.sleep(0.5)
        self._lock.seek(0)
        if left := self._lock.read():
            leftovers.remove(Path(left), NETWORK)
            shutil.rmtree(left, ignore_errors=True)
        self._lock.truncate(0)
        self._lock.write(str(self.folder))
        self._lock.flush()
