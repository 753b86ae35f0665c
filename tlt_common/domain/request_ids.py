"""How the ids of requests, samples and attempts are formed. Pure."""

from collections.abc import Collection
from uuid import uuid4

from tlt_common.domain.ids import RequestId

_ATTEMPT = "~"
_SAMPLE = "/"


def new_request_id() -> RequestId:
    """Return an id that no other request has and that cannot be guessed."""
    return RequestId(uuid4().hex)


def sample_id(request_id: RequestId, index: int) -> RequestId:
    """Return the id of a sample of a batch: `R/3`."""
    return RequestId(f"{request_id}{_SAMPLE}{index}")


def attempt_id(request_id: RequestId) -> RequestId:
    """
    Return an id for one attempt on a worker, such as `R~4fd0c1a2`.

    The suffix is random: a lost gateway's attempt may still run there, and nobody knows how many there were.
    """
    return RequestId(f"{request_id}{_ATTEMPT}{uuid4().hex[:12]}")


def request_of(attempt: RequestId) -> RequestId:
    """Return the id of the request that an attempt belongs to; an id without a suffix is its own."""
    return RequestId(attempt.rpartition(_ATTEMPT)[0] or attempt)


def names_of(request_id: RequestId) -> tuple[str, ...]:
    """Return the names by which a request can be aborted: its id and, in a batch, that of its prompt."""
    # An empty id would be that of every request outside a batch.
    prompt_id = request_id.rpartition(_SAMPLE)[0]
    return (request_id, prompt_id) if prompt_id else (request_id,)


def is_named(request_id: RequestId, wanted: Collection[str]) -> bool:
    """Whether `wanted` contains a request's id, or the id of its prompt in a batch."""
    return any(name in wanted for name in names_of(request_id))
