"""The worker's line to its spot trainer."""

from pathlib import Path
from typing import Protocol

import grpc

from tlt_common.domain.fleet import Lease, TrainingProgress
from tlt_common.domain.ids import Epoch, PolicyVersion
from tlt_common.rpc.errors import translated
from tlt_common.wire import trainer as wire

PROGRESS_S = 5.0
"""Longest answer about progress: a trainer in a micro-step on a crowded machine is slow, not gone."""


class TrainerLink(Protocol):
    """What a worker asks of its trainer. Every call raises UnavailableError when the trainer does not answer."""

    async def start(self, lease: Lease, *, policy: Path, version: PolicyVersion) -> None:
        """
        Let it train, or go on training, until the lease ends. Answers once it holds the device.

        Raises:
            StaleEpochError: It has seen a newer lease.
        """
        ...

    async def preempt(self, epoch: Epoch) -> TrainingProgress:
        """Stop it; answers when the device is free."""
        ...

    async def progress(self) -> TrainingProgress:
        """How training goes."""
        ...


class TrainerClient:
    """A trainer behind a gRPC channel."""

    def __init__(self, channel: grpc.aio.Channel, *, start_s: float, preempt_s: float) -> None:
        self._stub = wire.Stub(channel)
        self._start_s = start_s
        self._preempt_s = preempt_s

    async def start(self, lease: Lease, *, policy: Path, version: PolicyVersion) -> None:
        request = wire.pb.StartRequest(
            epoch=lease.epoch, ttl_s=lease.ttl_s, policy_uri=str(policy), policy_version=version
        )
        with translated():
            await self._stub.Start(request, timeout=self._start_s)

    async def preempt(self, epoch: Epoch) -> TrainingProgress:
        with translated():
            response = await self._stub.Preempt(wire.pb.PreemptRequest(epoch=epoch), timeout=self._preempt_s)
        return wire.progress_from_pb(response.progress)

    async def progress(self) -> TrainingProgress:
        with translated():
            response = await self._stub.GetProgress(wire.pb.GetProgressRequest(), timeout=PROGRESS_S)
        return wire.progress_from_pb(response.progress)
