"""All parts of a gateway, joined."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Never

from tlt_common.domain.fleet import ServerInfo
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.rollout import Prompt, TokenChunk
from tlt_common.rpc.channel import connect
from tlt_common.telemetry import metrics
from tlt_gateway.admission import Admission
from tlt_gateway.batch import Batches
from tlt_gateway.config import GatewayConfig
from tlt_gateway.discovery import follow
from tlt_gateway.dispatch import Dispatch
from tlt_gateway.fleet import Fleet
from tlt_gateway.link import Link, LinkState
from tlt_gateway.reporting import QueueReport
from tlt_gateway.weights import Weights


class Gateway:
    """Answers prompts with the workers it knows. Make it in a running event loop."""

    def __init__(self, config: GatewayConfig, *, spool_dir: Path) -> None:
        self._config = config
        self._fleet = Fleet(
            partial(connect, to="worker", tls=config.tls),
            fixed=config.workers,
            spill_load=config.spill_load,
            probe_s=config.probe_s,
            stage_s=config.stage_s,
        )
        self._report = (
            QueueReport(config.coordinator, config.gateway_id, report_s=config.report_s, tls=config.tls)
            if config.coordinator
            else None
        )
        self._admission: Admission[Link] = Admission(
            self._fleet,
            max_queued=config.max_queued,
            worker_wait_s=config.worker_wait_s,
            retry_after_s=config.retry_after_s,
            on_change=self._queue_changed,
        )
        self._fleet.when_room(self._admission.pump)
        self.dispatch = Dispatch(
            self._fleet, self._admission, worker_wait_s=config.worker_wait_s, max_moves=config.max_moves
        )
        self.batches = Batches(self.dispatch, self._admission)
        self.weights = Weights(self._fleet, spool_dir=spool_dir, spool_shared=config.spool_shared)

    async def run(self) -> Never:
        """Live until cancelled; the first part to fail takes the others down with it."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self.weights.run(), name="weights")
            parts.create_task(self._fleet.run(self.weights.admit), name="fleet")
            if self._config.coordinator:
                parts.create_task(follow(self._config.coordinator, self._fleet, tls=self._config.tls), name="discovery")
            if self._report:
                parts.create_task(self._report.run(), name="report")
        raise AssertionError("the gateway's parts ended by themselves")

    async def generate(self, prompt: Prompt) -> AsyncGenerator[TokenChunk, None]:
        """
        Answer one prompt. Closing the iterator aborts it.

        Raises:
            InvalidRequestError: It does not fit the model.
            OverloadedError: Too many requests wait.
            TltError: As `Dispatch.stream`.
        """
        self._admission.require_room()
        async with aclosing(self.dispatch.stream(await self.dispatch.checked(prompt))) as chunks:
            async for chunk in chunks:
                yield chunk

    @property
    def info(self) -> ServerInfo:
        """What is served now. Without any worker so far, model and sizes are empty."""
        infos = [link.info for link in self._fleet.links if link.info is not None]
        return ServerInfo(
            model=infos[0].model if infos else "",
            vocab_size=infos[0].vocab_size if infos else 0,
            context_length=min((info.context_length for info in infos), default=0),
            policy_version=self._fleet.version,
            drafter_version=min((info.drafter_version for info in infos), default=DrafterVersion(0)),
            workers=sum(link.state is LinkState.READY for link in self._fleet.links),
            queued=self._admission.queued,
            running=self.dispatch.running,
            server_version=version("tlt"),
        )

    def _queue_changed(self, queued: int) -> None:
        metrics.GATEWAY_QUEUED.set(queued)
        if self._report:
            self._report.update(queued)
