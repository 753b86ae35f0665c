"""Checks a request's headers and query: no duplicate headers, no unknown query parameters, no browser as the client."""

import re
from collections import Counter
from collections.abc import Collection

from fastapi import Request

from tlt_common.errors import InvalidRequestError, PermissionDeniedError
from tlt_common.rpc.http.hosts import is_own_host
from tlt_gateway.http.bodies.shown import shown

_ONCE = {
    b"authorization": "Authorization",
    b"content-encoding": "Content-Encoding",
    b"content-type": "Content-Type",
    b"host": "Host",
    b"x-session-id": "X-Session-ID",
    b"x-smg-routing-key": "X-SMG-Routing-Key",
}
"""Headers that are read, of which a second one would be ignored."""
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:\d{1,5})?", re.ASCII)


def require_single_headers(request: Request) -> None:
    """
    Raises:
        InvalidRequestError: A header that is read is repeated, or Host is not a host.
    """
    names = [name for name, _ in request.scope["headers"] if name in _ONCE]
    if len(set(names)) != len(names):
        field = _ONCE[Counter(names).most_common(1)[0][0]]
        raise InvalidRequestError(f"the header {field} is repeated; send it once", field=field)
    host = request.headers.get("host", "")
    if host and not _HOST.fullmatch(host):
        raise InvalidRequestError(f"Host is {shown(host)}; accepted: host or host:port", field="Host")


def require_known_query(request: Request, known: Collection[str], lists: Collection[str] = ()) -> None:
    """
    Raises:
        InvalidRequestError: The call has a query parameter that it does not know, or repeats one that is not a list.
    """
    if not request.scope["query_string"]:
        return
    seen = set[str]()
    for name, _ in request.query_params.multi_items():
        field = f"{name:.80}"
        if name not in known and name not in lists:
            accepted = ", ".join(sorted([*known, *lists])) or "no query parameters; send fields in the body"
            raise InvalidRequestError(f"{field} is an unknown query parameter; accepted: {accepted}", field=field)
        if name in seen and name not in lists:
            raise InvalidRequestError(f"the query parameter {field} is repeated; send it once", field=field)
        seen.add(name)


def require_no_page(request: Request, *, on_loopback: bool, changes: bool) -> None:
    """
    Refuse calls made by a web page through the browser of somebody who can reach this gateway. Programs send none of
    the headers that browsers add.

    Args:
        request: The call.
        on_loopback: The gateway serves this machine only, so its only valid host names are the machine's own.
        changes: The call changes the server's state, so that plain links are refused, too.

    Raises:
        PermissionDeniedError: A web page made the call.
    """
    site = request.headers.get("sec-fetch-site", "none")
    is_browser = request.headers.get("user-agent", "").startswith("Mozilla/")
    if "origin" in request.headers:
        field = "Origin"
    elif site != "none":
        field = "Sec-Fetch-Site"
    elif on_loopback and not is_own_host(request.headers.get("host", "")):
        field = "Host"  # a name of the page's, which it lets resolve to this machine
    elif changes and is_browser:
        field = "User-Agent"
    else:
        return
    raise PermissionDeniedError(
        f"{field} is {shown(request.headers[field])}: web pages may not call a gateway without tokens; accepted: calls "
        "of programs, or a gateway with tokens",
        field=field,
    )
