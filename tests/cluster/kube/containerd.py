"""The container runtime of a real node: containerd, runc, a bridge network, and this host's folders in every pod."""

import json
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.kube import images
from tests.cluster.kube.binaries import binary, folder
from tests.cluster.kube.commands import attempt, run
from tests.cluster.kube.network import BRIDGE, POD_NET
from tests.cluster.kube.processes import Processes

CONFIG = """
version = 3
root = '{home}/root'
state = '{home}/state'
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.internal.v1.tracing']
[grpc]
  address = '{socket}'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{pause}'
[plugins.'io.containerd.cri.v1.runtime']
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE no process may lower its own score
  cdi_spec_dirs = ['{home}/cdi']
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{binaries}/cni']
    conf_dir = '{home}/cni'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    base_runtime_spec = '{home}/base-spec.json'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = '{binaries}/runc'
      SystemdCgroup = false
"""


class Containerd:
    """
    A containerd of its own, with all it keeps below `home`.

    Args:
        mounts: Folders of this host that every container finds at the same place, read-only. They appear in no pod's
            specification, so `restricted` admits the pods.
    """

    def __init__(self, home: Path, mounts: Sequence[Path]) -> None:
        self.home = home
        self.socket = home / "c.sock"
        self._mounts = mounts

    def start(self, processes: Processes, names: Sequence[str]) -> None:
        """Start it and make its images: the pause image, and the Python image under each of `names`."""
        (self.home / "cni").mkdir(parents=True)
        (self.home / "base-spec.json").write_text(json.dumps(self._base_spec()))
        (self.home / "cni" / "10-pods.conflist").write_text(json.dumps(self._pod_network()))
        config = self.home / "config.toml"
        config.write_text(CONFIG.format(home=self.home, socket=self.socket, pause=images.PAUSE, binaries=folder()))
        processes.spawn(binary("containerd"), "--config", config)
        processes.wait("containerd", lambda: run(*self._ctr, "version"))
        images.write_pause(archive := self.home / "image.tar")
        self._load(archive)
        for name in names:
            images.write_python(archive, name)
            self._load(archive)

    def end_containers(self) -> None:
        """End whatever still runs in containers; used when nothing else ends them."""
        if not self.socket.exists() or not attempt(*self._ctr, "version"):
            return
        for task in run(*self._ctr, "tasks", "ls", "-q").split():
            attempt(*self._ctr, "tasks", "rm", "-f", task)

    @property
    def _ctr(self) -> tuple[object, ...]:
        return (binary("ctr"), "--connect-timeout", "2s", "-a", self.socket, "-n", "k8s.io")

    def _load(self, archive: Path) -> None:
        run(*self._ctr, "images", "import", archive)
        archive.unlink()

    def _base_spec(self) -> object:
        spec = json.loads(run(binary("ctr"), "oci", "spec"))
        cache = folder() / "bytecode"  # kept between clusters
        cache.mkdir(exist_ok=True)
        cache.chmod(0o1777)
        for source, target, mode in [*((mount, mount, "ro") for mount in self._mounts), (cache, images.CACHE, "rw")]:
            options = ["rbind", mode, "nosuid", "nodev"]
            mount = {"destination": str(target), "source": str(source), "type": "bind", "options": options}
            spec["mounts"].append(mount)
        return spec

    def _pod_network(self) -> object:
        addresses = {
            "type": "host-local",
            "dataDir": str(self.home / "ipam"),
            "ranges": [[{"subnet": POD_NET}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": True, "hairpinMode": True, "ipam": addresses}
        return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}
