"""Request ids as passed to SGLang."""

from tlt_common.domain.ids import RequestId

_END = "\x1f"
"""SGLang aborts by prefix: without a terminator, aborting `R/1` would also abort `R/10`."""


def sglang_rid(name: RequestId) -> str:
    """Return SGLang's id of a request."""
    return name + _END


def request_id(rid: str) -> RequestId:
    """Return the request id of an SGLang id."""
    return RequestId(rid.removesuffix(_END))
