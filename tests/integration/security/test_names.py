"""Which names in a certificate are accepted."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.fakes.gateway_watch import first_report
from tests.fakes.worker import FakeWorker
from tlt_common.config.base import TlsSettings
from tlt_common.errors import PermissionDeniedError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.server import internal
from tlt_worker.main import CALLERS

LATER = datetime(2999, 1, 1, tzinfo=UTC)
EARLIER = datetime(2020, 1, 1, tzinfo=UTC)
ROLE = "gateway.tlt.internal"


class Issuer:
    """A certificate authority that issues certificates with arbitrary names, unlike trustme."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuer")])
        self._own = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=0))

    def issue(self, name: str, *names: x509.GeneralName, common_name: str = "") -> TlsSettings:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)] if common_name else [])
        certificate = self._signed(subject, key, x509.SubjectAlternativeName(names))
        return TlsSettings(
            certificate=self._file(f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM)),
            key=self._file(
                f"{name}.key",
                key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                ),
            ),
            ca=self._file("ca.crt", self._own.public_bytes(serialization.Encoding.PEM)),
        )

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        builder = x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
        dated = builder.not_valid_before(EARLIER).not_valid_after(LATER)
        return dated.add_extension(extension, critical=True).sign(self._key, hashes.SHA256())

    def _file(self, name: str, content: bytes) -> Path:
        path = self._directory / name
        path.write_bytes(content)
        return path


@pytest.mark.parametrize(
    ("names", "common_name", "counts"),
    [
        ([x509.DNSName(ROLE)], "", True),
        ([x509.DNSName("a.example"), x509.DNSName(ROLE.upper())], "", True),
        ([x509.DNSName("a.example")], ROLE, False),
        ([x509.UniformResourceIdentifier(ROLE)], "", False),
        ([x509.RFC822Name(f"gateway@{ROLE}")], "", False),
        ([x509.DNSName(f"{ROLE}.example")], "", False),
        ([x509.DNSName("*.tlt.internal")], "", False),
        ([x509.DNSName(f"other.{ROLE}")], "", False),
    ],
)
async def test_only_a_dns_name_of_the_component_is_its_role(
    names: list[x509.GeneralName], common_name: str, counts: bool, tmp_path: Path
) -> None:
    issuer = Issuer(tmp_path)
    security = internal(issuer.issue("worker", x509.DNSName("worker.tlt.internal")), CALLERS)
    tls = issuer.issue("caller", *names, common_name=common_name)
    async with FakeWorker(security=security) as worker, connect(worker.address, to="worker", tls=tls) as channel:
        if counts:
            assert (await first_report(channel)).info.worker_id == "w0"
        else:
            with pytest.raises(PermissionDeniedError):
                await first_report(channel)
