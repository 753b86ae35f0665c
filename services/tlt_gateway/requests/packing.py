"""Packs new requests onto few workers at steady load, where measured rounds say that this hardly slows them down."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Never

from tlt_common.forecast import CostCurve
from tlt_common.telemetry import metrics
from tlt_gateway.consolidation.knee import knee
from tlt_gateway.queue.slots import WorkerSlots
from tlt_gateway.requests.forecast import kv_tokens
from tlt_gateway.requests.running_request import RunningRequest

LOOK_S = 1.0
"""Seconds between two looks at what runs."""
SAMPLED = 256
"""Requests whose tokens in the KV cache are counted; the others are taken to be like them."""


class Packing:
    """
    Args:
        slots: The workers, and what runs on them.
        requests: Returns the requests of this gateway that run.
        curves: What rounds cost, by device.
        slack: Share by which tokens may take longer.

    Attributes:
        lending: Whether the coordinator lends idle workers. False while it is unreachable.
    """

    def __init__(
        self,
        slots: WorkerSlots,
        requests: Callable[[], Iterable[RunningRequest]],
        curves: Mapping[str, CostCurve],
        *,
        slack: float,
    ) -> None:
        self._slots = slots
        self._requests = requests
        self._curves = curves
        self._slack = slack
        self.lending = False

    async def run(self) -> Never:
        """Run until cancelled."""
        while True:
            self._slots.placing.pack = self._knee() if self.lending and self._slack else 0
            metrics.GATEWAY_PACKED.set(self._slots.placing.pack)
            await asyncio.sleep(LOOK_S)

    def _knee(self) -> int:
        workers = self._slots.candidates()
        infos = [worker.info for _, worker in workers if worker.info is not None]
        curves = {info.device: self._curves.get(info.device) for info in infos}
        sample = [kv_tokens(one) for one, _ in zip(self._requests(), range(SAMPLED), strict=False)]
        if not sample or not all(curves.values()):
            return 0
        running = sum(candidate.running for candidate, _ in workers)
        return min(
            knee(
                curve.token_s,
                running=running,
                workers=len(infos),
                kv_tokens=running * sum(sample) / len(sample),
                kv_room=min(info.kv_room for info in infos),
                slack=self._slack,
            )
            for curve in filter(None, curves.values())
        )
