"""How tests talk to a cluster: kubectl, Helm, and plain requests to the API server."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.kube.binaries import binary
from tests.cluster.kube.certificates import write_kubeconfig
from tests.cluster.kube.commands import run
from tests.cluster.kube.rest import Rest

Object = dict[str, Any]


class Client:
    """
    One user of one cluster; with `namespace`, commands and manifests that name none go there.

    Attributes:
        url, ca, kubeconfig: For programs under test that make clients of their own.
    """

    def __init__(self, *, url: str, ca: Path, kubeconfig: Path, namespace: str | None = None) -> None:
        self.url = url
        self.ca = ca
        self.kubeconfig = kubeconfig
        self.namespace = namespace

    def kubectl(self, *arguments: object, stdin: str | None = None, timeout_s: float = 180.0) -> str:
        """What kubectl printed; CommandError when it failed."""
        return run(binary("kubectl"), *self._where(), *arguments, stdin=stdin, timeout_s=timeout_s)

    def helm(self, *arguments: object, timeout_s: float = 300.0) -> str:
        """What Helm printed; CommandError when it failed."""
        return run(binary("helm"), *self._where(), *arguments, timeout_s=timeout_s)

    def json_of(self, *arguments: object) -> Object:
        """What `kubectl ARGUMENTS -o json` found."""
        found: Object = json.loads(self.kubectl(*arguments, "-o", "json"))
        return found

    def items(self, *arguments: object) -> list[Object]:
        """The list that `kubectl get ARGUMENTS` found."""
        found: list[Object] = self.json_of("get", *arguments)["items"]
        return found

    def apply(self, *manifests: Path | Object | str) -> None:
        """Apply files, objects or YAML texts, server-side: big CRDs go no other way."""
        for manifest in manifests:
            text = _text(manifest)
            self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)

    def token(self, account: str) -> str:
        """A token of a service account, valid for an hour."""
        return self.kubectl("create", "token", account, "--duration=1h").strip()

    def as_account(self, account: str, folder: Path) -> "Client":
        """The same cluster and namespace, as a service account; its kubeconfig is written into `folder`."""
        user = {"token": self.token(account)}
        path = write_kubeconfig(folder / f"{account}.kubeconfig", url=self.url, ca=self.ca, user=user)
        return Client(url=self.url, ca=self.ca, kubeconfig=path, namespace=self.namespace)

    def inside(self, namespace: str) -> "Client":
        """The same user in a namespace."""
        return Client(url=self.url, ca=self.ca, kubeconfig=self.kubeconfig, namespace=namespace)

    def get(self, path: str) -> bytes:
        """The API server's answer to a GET, without kubectl."""
        return self.rest().get(path)

    def rest(self) -> Rest:
        """The plain API as this user, for what kubectl is too slow for."""
        return Rest(self.kubeconfig)

    def _where(self) -> Sequence[object]:
        inside = ("--namespace", self.namespace) if self.namespace else ()
        return ("--kubeconfig", self.kubeconfig, *inside)


def _text(manifest: Path | Object | str) -> str:
    if isinstance(manifest, Path):
        return manifest.read_text()
    return manifest if isinstance(manifest, str) else json.dumps(manifest)
