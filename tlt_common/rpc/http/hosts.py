"""Host names under which a server is called: a web page could resolve its own name to a local server's address."""

from collections.abc import Collection
from ipaddress import ip_address

RESERVED = frozenset({"localhost", "local", "internal", "svc", "test", "invalid"})
"""Last labels of names that nobody can register: those of one machine or of a cluster."""


def host_of(header: str) -> str:
    """Return the name in a Host header, without its port and the brackets of an IPv6 address, in lower case."""
    name = header[1:].partition("]")[0] if header.startswith("[") else header.partition(":")[0]
    return name.lower().removesuffix(".")


def is_private(name: str) -> bool:
    """Whether no web page can have this name: it is an address, a single label, or reserved."""
    try:
        ip_address(name)
    except ValueError:
        return "." not in name or name.rpartition(".")[2] in RESERVED
    return True


def is_own_host(header: str, names: Collection[str] = ()) -> bool:
    """Whether a Host header can only come from a client that means this server. `names` are its public names."""
    name = host_of(header)
    return is_private(name) or name in {known.lower() for known in names}
