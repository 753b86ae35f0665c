"""The fixed rule: as many requests per worker as a number says, whatever is left of them."""

from collections.abc import Iterable

from tlt_common.domain.ids import WorkerId
from tlt_gateway.workers.routing import Candidate


def to_empty(candidates: Iterable[Candidate], *, at_most: int) -> tuple[WorkerId, ...]:
    """
    Return the workers whose requests other busy workers can run as well, so that their devices can be lent.

    Counts the requests of all gateways: several gateways, each of which moves its own, choose the same workers.

    Args:
        candidates: Workers that accept requests.
        at_most: Requests that a worker runs at most after others have moved to it.
    """
    busy = sorted((c for c in candidates if c.running and not c.training), key=lambda c: (c.running, c.worker_id))
    rooms = {c.worker_id: min(c.free, max(0, at_most - c.running)) for c in busy}
    room, found = sum(rooms.values()), []
    for candidate in busy:
        elsewhere = room - rooms[candidate.worker_id]
        if candidate.lendable and candidate.running <= elsewhere:
            room = elsewhere - candidate.running
            found.append(candidate.worker_id)
    return tuple(found)
