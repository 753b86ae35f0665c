"""Redis URLs. They contain a password and are therefore treated as secrets in logs, errors and dumps."""

from collections.abc import Collection
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

SCHEMES = ("redis", "rediss", "unix")
CLUSTER = "+cluster"
"""Behind the scheme of a Redis Cluster."""


def checked_redis_url(url: SecretStr, *, words: Collection[str], cluster: bool = False) -> SecretStr:
    """
    Return a Redis URL, or one of the words accepted instead. With `cluster`, a Redis Cluster is accepted, too.

    Raises:
        ValueError: The text is neither. The message does not contain it.
    """
    if url.get_secret_value() in words or _is_redis_url(url.get_secret_value(), cluster=cluster):
        return url
    wanted = "redis[s][+cluster]" if cluster else "redis[s]"
    raise ValueError(
        f"accepted: {', '.join(words)}, or {wanted}://[:PASSWORD@]HOST[:PORT][/DB], or unix://PATH; "
        "characters such as / and # in a password as %2F and %23"
    )


def connection_options(url: str, ca: Path | None) -> dict[str, str]:
    """Return the TLS options of a Redis client, which verifies the certificate and name of a rediss:// server."""
    if urlsplit(url).scheme.removesuffix(CLUSTER) != "rediss":
        return {}
    return {"ssl_cert_reqs": "required", **({"ssl_ca_certs": str(ca)} if ca else {})}


def shown_redis_url(url: SecretStr) -> str:
    """Return scheme, host and port of a Redis URL, or the word given instead, for logs."""
    if "://" not in url.get_secret_value():
        return url.get_secret_value()
    parts = urlsplit(url.get_secret_value())
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


def _is_redis_url(url: str, *, cluster: bool) -> bool:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises if it is not a number, such as the rest of a password with a # in it
    except ValueError:
        return False
    scheme = parts.scheme.removesuffix(CLUSTER) if cluster else parts.scheme
    if scheme == "unix" and scheme != parts.scheme:  # the nodes of a cluster have ports
        return False
    return scheme in SCHEMES and bool(parts.path if parts.scheme == "unix" else parts.hostname)
