"""Remove all that a real cluster left on this machine, whether it ended well or its session was killed."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from tests.cluster.kube.binaries import binary
from tests.cluster.kube.commands import attempt
from tests.cluster.kube.kubelet import CGROUP, hierarchies
from tests.cluster.kube.network import Network
from tests.cluster.kube.processes import Processes

END_S = 10.0


def remove(folder: Path, network: Network) -> None:
    """End and remove all of the cluster that lived in `folder`; the folder itself stays."""
    if folder.exists():
        Processes(folder).stop()
    end_shims(folder)
    end_pods()
    unmount(folder)
    network.remove(folder / "sysctls.json")


def end_shims(folder: Path) -> None:
    """End the shims of this cluster's containerd: nobody else does once containerd is gone."""
    own = {str(binary("containerd-shim-runc-v2")), f"{folder}/containerd/c.sock"}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and own <= set((entry / "cmdline").read_text().split("\0")):
                os.kill(int(entry.name), signal.SIGKILL)


def end_pods() -> None:
    """End what still runs in our own cgroup, and remove the cgroup from every hierarchy."""
    end = time.monotonic() + END_S
    tops = [hierarchy / CGROUP for hierarchy in hierarchies()]
    while any(top.exists() for top in tops) and time.monotonic() < end:
        for top in tops:
            for processes in top.rglob("cgroup.procs"):
                with suppress(OSError):
                    for pid in processes.read_text().split():
                        os.kill(int(pid), signal.SIGKILL)
            _remove(top)
        time.sleep(0.05)


def unmount(folder: Path) -> None:
    """Unmount what was mounted below a folder, innermost first."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for target in reversed(mounts):
        if target.startswith(f"{folder}/"):
            attempt("umount", "-l", target)


def _remove(top: Path) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        with suppress(OSError):  # its processes are still ending
            Path(folder).rmdir()
