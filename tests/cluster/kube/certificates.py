"""A cluster's certificates and kubeconfigs, all from one authority that lives as long as the cluster."""

import json
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.kube.commands import run

DAYS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate and its key, PEM."""

    certificate: Path
    key: Path


class Authority:
    """
    One authority for servers and clients. In a subject CN is the user, O a group.

    Attributes:
        ca: The authority's own pair.
        service_accounts: Private and public key (in `certificate`) of service-account tokens.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.ca = self._pair("ca")
        self.service_accounts = Pair(certificate=folder / "sa.pub", key=folder / "sa.key")

    def create(self) -> None:
        """Make the authority and the keys of service accounts."""
        self._request(self.ca, "/CN=tlt-test-ca", [])
        tokens = self.service_accounts
        run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", tokens.key)
        run("openssl", "ec", "-in", tokens.key, "-pubout", "-out", tokens.certificate)

    def issue(self, name: str, subject: str, names: str = "") -> Pair:
        """A certificate; `names` as openssl's subjectAltName, such as `IP:127.0.0.1,DNS:localhost`."""
        pair = self._pair(name)
        extensions = ["-addext", "basicConstraints=critical,CA:FALSE"]
        if names:
            extensions += ["-addext", f"subjectAltName={names}"]
        self._request(pair, subject, ["-CA", self.ca.certificate, "-CAkey", self.ca.key, *extensions])
        return pair

    def kubeconfig(self, path: Path, url: str, name: str, subject: str) -> Path:
        """Write a kubeconfig for a user with a certificate of its own."""
        pair = self.issue(name, subject)
        user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        return write_kubeconfig(path, url=url, ca=self.ca.certificate, user=user)

    def _pair(self, name: str) -> Pair:
        return Pair(certificate=self._folder / f"{name}.crt", key=self._folder / f"{name}.key")

    def _request(self, pair: Pair, subject: str, more: list[object]) -> None:
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", DAYS, "-subj", subject]
        run("openssl", "req", "-x509", *new, "-keyout", pair.key, "-out", pair.certificate, *more)


def write_kubeconfig(path: Path, *, url: str, ca: Path, user: dict[str, str]) -> Path:
    """Write a kubeconfig for one user, readable by its owner alone."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(ca)}}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path
