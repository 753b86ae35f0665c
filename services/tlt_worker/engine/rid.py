"""Request ids as SGLang sees them."""

from tlt_common.domain.ids import RequestId

_END = "\x1f"
"""SGLang aborts by prefix: without an end mark `R/1` would take `R/10` with it."""


def sglang_rid(name: RequestId) -> str:
    """Return SGLang's id of a request."""
    return name + _END


def request_id(rid: str) -> RequestId:
    """Return the request of an SGLang id."""
    return RequestId(rid.removesuffix(_END))
