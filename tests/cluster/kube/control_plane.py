"""A real Kubernetes control plane for one test session: etcd, API server, controllers, scheduler, fake nodes."""

import shutil
import socket
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cluster.kube import fake_nodes
from tests.cluster.kube.binaries import binary
from tests.cluster.kube.certificates import Authority
from tests.cluster.kube.client import Client
from tests.cluster.kube.processes import Processes

SERVICE_CIDR, SERVICE_IP, POD_CIDR = "10.96.0.0/16", "10.96.0.1", "10.244.0.0/16"
LOOPBACK = "127.0.0.1"
# Controllers and scheduler limit themselves to 20 requests a second by default, which costs 4 s at the start.
EAGER = ("--kube-api-qps", 500, "--kube-api-burst", 1000)
LONGEST_FOLDER = 40  # the longest unix socket below it must stay under 108 characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Free ports of this machine, taken at the same moment."""

    etcd: int
    peer: int
    api: int
    controllers: int
    scheduler: int
    kwok: int

    @classmethod
    def free(cls) -> Self:
        with ExitStack() as held:
            found = [held.enter_context(socket.create_server((LOOPBACK, 0))).getsockname()[1] for _ in range(6)]
        return cls(etcd=found[0], peer=found[1], api=found[2], controllers=found[3], scheduler=found[4], kwok=found[5])


class ControlPlane(Client):
    """
    A control plane on loopback; needs no root. A context manager: all is ended and removed when it is left.

    Args:
        kwok: Fake nodes of 8 GPUs each, on which pods only pretend to run.

    Attributes:
        seconds: From the start until each stage was ready.
        keep_logs: Set it to leave the logs in `folder` when the cluster ends; a failed start does.
    """

    def __init__(self, *, kwok: int = 0, prefix: tuple[str, ...] = (), host: str = LOOPBACK) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kube-")).resolve()
        if len(str(self.folder)) > LONGEST_FOLDER:
            raise ValueError(f"{self.folder} is too long for unix sockets: set TMPDIR to a short path")
        self.processes = Processes(self.folder, prefix)
        self.authority = Authority(self.folder / "pki")
        self.seconds: dict[str, float] = {}
        self.keep_logs = False
        self.kwok = kwok
        self._host, self._ports = host, Ports.free()
        self._began = time.monotonic()
        super().__init__(
            url=f"https://{host}:{self._ports.api}",
            ca=self.authority.ca.certificate,
            kubeconfig=self.folder / "kubeconfig",
        )

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException as error:
            error.add_note(f"the cluster's logs are kept in {self.processes.logs}")
            self.keep_logs = True
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        self._began = time.monotonic()
        self.start_control_plane()

    def start_control_plane(self) -> None:
        self._issue_certificates()
        self._start_etcd()
        self._start_api_server()
        self.reached("API server ready")
        self._start_controllers()
        # The default service account exists once the controllers run: from then on pods can be created.
        self.processes.wait("controllers", lambda: self.get("/api/v1/namespaces/default/serviceaccounts/default"))
        self.reached("pods can be created")
        if self.kwok:
            fake_nodes.start(self, self.processes, self.kwok, self._ports.kwok)
            self.reached(f"{self.kwok} fake nodes ready")

    def stop(self) -> None:
        """End everything and remove the folder, but for the logs where they are to be kept."""
        self.end()
        for entry in self.folder.iterdir():
            if entry == self.processes.logs and self.keep_logs:
                continue
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        if not self.keep_logs:
            self.folder.rmdir()

    def end(self) -> None:
        """End all processes, servers after their clients: the API server waits 10 s for those that still watch."""
        self.processes.stop_all_but("kube-apiserver", "etcd")
        self.processes.stop("kube-apiserver")
        self.processes.stop()

    def reached(self, stage: str) -> None:
        """Note how long a stage took since the start."""
        self.seconds[stage] = time.monotonic() - self._began

    def user(self, name: str, subject: str) -> Path:
        """A kubeconfig for one of the cluster's own parts."""
        return self.authority.kubeconfig(self.folder / f"{name}.kubeconfig", self.url, name, subject)

    def _issue_certificates(self) -> None:
        self.authority.create()
        inside = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
        names = [f"IP:{ip}" for ip in {LOOPBACK, self._host, SERVICE_IP}] + [f"DNS:{name}" for name in inside]
        self.authority.issue("apiserver", "/CN=kube-apiserver", ",".join(names))
        self.authority.issue("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client")
        self.authority.kubeconfig(self.kubeconfig, self.url, "admin", "/O=system:masters/CN=admin")

    def _start_etcd(self) -> None:
        clients = f"http://{LOOPBACK}:{self._ports.etcd}"
        data = ("--data-dir", self.folder / "etcd", "--unsafe-no-fsync", "--log-level", "warn")
        listen = ("--listen-client-urls", clients, "--advertise-client-urls", clients)
        self.processes.spawn(
            binary("etcd"), *data, *listen, "--listen-peer-urls", f"http://{LOOPBACK}:{self._ports.peer}"
        )

    def _start_api_server(self) -> None:
        pki, local = self.folder / "pki", self._host == LOOPBACK
        tokens = self.authority.service_accounts
        flags = {
            "etcd-servers": f"http://{LOOPBACK}:{self._ports.etcd}",
            "bind-address": LOOPBACK if local else "0.0.0.0",  # all addresses only in a namespace of its own
            "advertise-address": self._host,
            # A loopback address is no legal endpoint of the Service "kubernetes": publish none then.
            "endpoint-reconciler-type": "none" if local else "lease",
            "secure-port": self._ports.api,
            "service-cluster-ip-range": SERVICE_CIDR,
            "allow-privileged": "true",
            "client-ca-file": self.authority.ca.certificate,
            "tls-cert-file": pki / "apiserver.crt",
            "tls-private-key-file": pki / "apiserver.key",
            "kubelet-client-certificate": pki / "kubelet-client.crt",
            "kubelet-client-key": pki / "kubelet-client.key",
            # Without it logs and exec look the node's name up in DNS.
            "kubelet-preferred-address-types": "InternalIP",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": tokens.certificate,
            "service-account-signing-key-file": tokens.key,
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
        }
        self.processes.spawn(binary("kube-apiserver"), *(f"--{name}={value}" for name, value in flags.items()))
        self.processes.wait("the API server", lambda: self.get("/readyz") == b"ok")

    def _start_controllers(self) -> None:
        ca, tokens = self.authority.ca, self.authority.service_accounts
        common = (f"--bind-address={LOOPBACK}", "--leader-elect=false", *EAGER)
        controllers = self.user("controllers", "/CN=system:kube-controller-manager")
        signing = (f"--cluster-signing-cert-file={ca.certificate}", f"--cluster-signing-key-file={ca.key}")
        accounts = (f"--service-account-private-key-file={tokens.key}", f"--root-ca-file={ca.certificate}")
        self.processes.spawn(
            binary("kube-controller-manager"),
            *(f"--kubeconfig={controllers}", f"--secure-port={self._ports.controllers}", *common),
            *("--use-service-account-credentials", *accounts, *signing),
            *("--allocate-node-cidrs", f"--cluster-cidr={POD_CIDR}"),
        )
        scheduler = self.user("scheduler", "/CN=system:kube-scheduler")
        self.processes.spawn(
            binary("kube-scheduler"), f"--kubeconfig={scheduler}", f"--secure-port={self._ports.scheduler}", *common
        )
