"""Where the binaries of `build.sh` lie, and what is missing on this machine to run them."""

import os
import shutil
import sys
from pathlib import Path

BUILD = Path(__file__).parent / "build.sh"

CHART = ("helm", "kubeconform", "promtool", "prometheus")
CONTROL = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
DEFINITIONS = "crds"  # custom resources of other operators than KubeRay
NODE = ("kubelet", "kube-proxy", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "coredns", "fakegpu")
NODE_COMMANDS = ("nsenter", "setpriv", "ip", "nft", "gcc", "sysctl", "umount")


def folder() -> Path:
    """`$KUBE_BIN`, or the folder of the same meaning in the user's cache."""
    if named := os.environ.get("KUBE_BIN"):
        return Path(named).resolve()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "tlt", "kube")


def binary(name: str) -> Path:
    """The built program of that name, whether it is there or not."""
    return folder() / name


def missing(*names: str) -> str | None:
    """What to tell a reader whose machine lacks some of these binaries; None when all are there."""
    absent = [name for name in names if not binary(name).exists()]
    if not absent:
        return None
    advice = f"run {BUILD}" if shutil.which("go") else f"install Go 1.26, then run {BUILD}"
    return f"{', '.join(absent)} not found in {folder()}: {advice}"


def missing_for_control_plane() -> str | None:
    """Why a control plane cannot run here; None when it can."""
    return missing(*CONTROL) or missing_commands("openssl", "setpriv")


def missing_for_real_cluster() -> str | None:
    """Why pods cannot really run here; None when they can."""
    if os.geteuid():
        return "real pods need root (network namespaces, mounts, cgroups)"
    if Path(sys.prefix).is_relative_to("/tmp"):  # noqa: S108 - pods have a /tmp of their own
        return f"real pods find this environment where it is here, and {sys.prefix} is in /tmp, which is theirs"
    return missing_for_control_plane() or missing(*NODE) or missing_commands(*NODE_COMMANDS)


def missing_commands(*names: str) -> str | None:
    """Which programs of the system are not installed; None when all are."""
    absent = [name for name in names if not shutil.which(name)]
    return f"{', '.join(absent)} not installed" if absent else None
