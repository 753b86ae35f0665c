"""Weight updates and drafter swaps during the disturbances. The weights stay the same, so tokens must, too."""

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Never

from safetensors.torch import load_file

from countdown.settings import DRAFTER
from tlt_bench.campaign.suite.stored import stored
from tlt_bench.campaign.suite.suite import MODEL
from tlt_common.client import Client
from tlt_common.errors import TltError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire

UPDATE_S = 180.0
"""Deadline of one attempt in seconds."""
RETRY_S = 1.0
CALL_S = 10.0


class WeightUpdates:
    """
    Publishes the served weights under new versions, in turn as a directory, as tensors and from an object store.

    Args:
        store: URI of the weights in an object store; empty without one.
        note: Called with a line about each update.
    """

    def __init__(self, client: Client, *, every_s: float, note: Callable[[str], None], store: str = "") -> None:
        self._client = client
        self._every_s = every_s
        self._note = note
        self._forms: list[Path | str | Mapping[str, Any]] = [load_file(MODEL / "model.safetensors"), MODEL]
        if store:
            self._forms.append(store)
        self.version = 0
        """The last version that was published with success."""
        self.failed_attempts = 0
        self.slowest_s = 0.0

    async def run(self) -> Never:
        """Publish until cancelled. A failed update is retried under the same version, as by trainers."""
        while True:
            await asyncio.sleep(self._every_s)
            await self.publish()

    async def publish(self) -> None:
        """Publish the next version; return when all workers serve it."""
        version, began_s = self.version + 1, time.monotonic()
        for attempt in itertools.count(1):
            try:
                weights = self._forms[version % len(self._forms)]
                await self._client.publish_weights(version, weights, timeout_s=UPDATE_S)
            except TltError as error:
                self.failed_attempts += 1
                self._note(f"update {version}, attempt {attempt} failed, {error.reason}: {error.message}")
                await asyncio.sleep(RETRY_S)
            else:
                break
        self.version = version
        self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
        self._note(f"update {version} took {time.monotonic() - began_s:.1f} s")


class DrafterSwaps:
    """
    Publishes copies of the drafter, which every engine loads, while spot trainers publish theirs.

    Args:
        coordinator: host:port.
        url: Directory or URL to which the copies are written; workers read them.
    """

    def __init__(self, coordinator: str, url: str, *, every_s: float, note: Callable[[str], None]) -> None:
        self._coordinator = coordinator
        self._url = url
        self._every_s = every_s
        self._note = note

    async def run(self) -> Never:
        """Publish until cancelled. A drafter that is not stored or not accepted by the coordinator is skipped."""
        for number in itertools.count(1):
            await asyncio.sleep(self._every_s)
            try:
                version = await self._publish(await asyncio.to_thread(stored, DRAFTER, self._url, f"drafter-{number}"))
            except TltError as error:
                self._note(f"drafter not published, {error.reason}: {error.message}")
            else:
                self._note(f"drafter {version} published")
        raise AssertionError  # count() does not end

    async def _publish(self, uri: str) -> int:
        """
        Publish a drafter as the successor of the newest one, with the same score.

        Raises:
            TltError: The coordinator is unreachable, or a trainer was faster.
        """
        async with connect(self._coordinator, to="coordinator") as channel:
            stub = wire.Stub(channel)
            with translated():
                fleet = wire.fleet_from_pb(await stub.GetFleet(wire.pb.GetFleetRequest(), timeout=CALL_S))
                request = wire.pb.PublishDrafterRequest(
                    base_version=fleet.drafter.version if fleet.drafter else 0,
                    uri=uri,
                    worker_id="campaign",
                    held_out_top1=fleet.drafters[-1].held_out_top1 if fleet.drafters else 0.0,
                )
                return int((await stub.PublishDrafter(request, timeout=CALL_S)).drafter_version)
