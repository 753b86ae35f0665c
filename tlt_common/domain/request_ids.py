"""Ids of requests, samples and attempts. Pure."""

from collections.abc import Collection
from uuid import uuid4

from tlt_common.domain.ids import RequestId

_ATTEMPT = "~"
_SAMPLE = "/"


def new_request_id() -> RequestId:
    """Return a unique id that cannot be guessed."""
    return RequestId(uuid4().hex)


def sample_id(request_id: RequestId, index: int) -> RequestId:
    """Return the id of a sample of a batch: `R/3`."""
    return RequestId(f"{request_id}{_SAMPLE}{index}")


def attempt_id(request_id: RequestId) -> RequestId:
    """
    Return an id for one attempt on a worker, such as `R~4fd0c1a2`.

    The suffix is random: attempts of a lost gateway may still be running there, in an unknown number.
    """
    return RequestId(f"{request_id}{_ATTEMPT}{uuid4().hex[:12]}")


def request_of(attempt: RequestId) -> RequestId:
    """Return the request id of an attempt. An id without a suffix is returned unchanged."""
    return RequestId(attempt.rpartition(_ATTEMPT)[0] or attempt)


def names_of(request_id: RequestId) -> tuple[str, ...]:
    """Return the names by which a request can be aborted: its id and, in a batch, its prompt's id."""
    # An empty id would be that of every request outside a batch.
    prompt_id = request_id.rpartition(_SAMPLE)[0]
    return (request_id, prompt_id) if prompt_id else (request_id,)


def is_named(request_id: RequestId, wanted: Collection[str]) -> bool:
    """Whether `wanted` contains a request's id, or the id of its prompt in a batch."""
    return any(name in wanted for name in names_of(request_id))
