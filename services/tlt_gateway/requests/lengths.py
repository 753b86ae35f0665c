"""Reports the lengths of running and finished responses to the coordinator."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from tlt_common.domain.ids import WorkerId
from tlt_common.domain.response import FinishReason
from tlt_common.load import GatewayLoad, WorkerLoad, by_cap
from tlt_gateway.requests.requests import Requests
from tlt_gateway.requests.running_request import RunningRequest

LOOK_S = 0.5
"""Seconds between two looks at what runs."""
REQUESTS_PER_S = 2000
"""Requests looked at per second: with more, looks are rarer."""

MAX_UNTOLD = 2**16
"""Lengths of finished responses that are kept until the next report; of more, the latest."""

AT_ONCE = 256
"""Requests looked at before other tasks run."""


class RequestLengths:
    """
    Args:
        requests: Returns the gateway's requests.
    """

    def __init__(self, requests: Callable[[], Requests]) -> None:
        self._requests = requests
        self._ended = deque[int](maxlen=MAX_UNTOLD)
        self._cut = deque[int](maxlen=MAX_UNTOLD)
        self._running: tuple[WorkerLoad, ...] = ()
        self._due_s = 0.0

    def over(self, request: RunningRequest) -> None:
        """Record the length of an ended request, if any of it was generated here."""
        transcript = request.transcript
        if transcript.generated > len(transcript.prompt.prefix_token_ids):
            ended = transcript.finish_reason is FinishReason.STOP
            (self._ended if ended else self._cut).append(transcript.generated)

    async def load(self) -> GatewayLoad:
        """Return the load to report. The length of each finished response is reported once."""
        now_s = asyncio.get_running_loop().time()
        ended, cut = tuple(self._ended), tuple(self._cut)
        self._ended.clear()
        self._cut.clear()
        if now_s >= self._due_s:
            at_workers = [one for one in self._requests().all if one.worker is not None and one.occupies]
            self._due_s = now_s + max(LOOK_S / 2.0, len(at_workers) / REQUESTS_PER_S)
            self._running = await _by_worker(at_workers)
        return GatewayLoad(workers=self._running, ended=ended, cut=cut)


async def _by_worker(requests: Iterable[RunningRequest]) -> tuple[WorkerLoad, ...]:
    """Return the token limits and counts of requests by worker, without requests that have left their worker."""
    found: dict[WorkerId, list[tuple[int, int]]] = {}
    for place, one in enumerate(requests, 1):
        if one.worker is not None and one.worker.info is not None:
            generated = one.transcript.generated
            cap = one.transcript.prompt.sampling.max_new_tokens or generated
            found.setdefault(one.worker.info.worker_id, []).append((cap, generated))
        if place % AT_ONCE == 0:
            await asyncio.sleep(0)
    return tuple(WorkerLoad(worker_id=name, running=by_cap(ones)) for name, ones in found.items())
