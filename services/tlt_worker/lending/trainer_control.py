"""The worker's RPCs to its spot trainer."""

from pathlib import Path
from typing import Protocol

import grpc

from tlt_common.domain.fleet import Lease, TrainingProgress
from tlt_common.domain.ids import Epoch, PolicyVersion
from tlt_common.rpc.errors import translated
from tlt_common.wire import trainer as wire

START_S = 30.0
"""Timeout of Start in seconds. The trainer reads embedding and head meanwhile, from files that the engine has just
read."""
PREEMPT_S = 5.0
"""Timeout of Preempt in seconds, after which the trainer is killed and restarted: sixty micro-steps."""
PROGRESS_S = 5.0
"""Timeout of GetProgress in seconds: in a micro-step on a crowded machine a trainer is slow, not dead."""


class TrainerControl(Protocol):
    """Calls of a worker to its trainer. Each raises UnavailableError if the trainer is unreachable."""

    async def start(self, lease: Lease, *, policy: Path, version: PolicyVersion, accept_length: float) -> None:
        """
        Start or continue training until the lease ends. Returns once the trainer holds the device.

        Raises:
            StaleEpochError: The trainer has seen a newer lease, or this one ended meanwhile.
        """
        ...

    async def preempt(self, epoch: Epoch) -> TrainingProgress:
        """Stop training; returns once the device is free."""
        ...

    async def prepare(self, policy: Path, version: PolicyVersion) -> None:
        """Let the trainer read the parts of these weights that a lease needs. Returns immediately."""
        ...

    async def progress(self) -> TrainingProgress:
        """Return the progress of training."""
        ...


class TrainerClient:
    """A trainer behind a gRPC channel."""

    def __init__(self, channel: grpc.aio.Channel, *, start_s: float = START_S, preempt_s: float = PREEMPT_S) -> None:
        self._stub = wire.Stub(channel)
        self._start_s = start_s
        self._preempt_s = preempt_s

    async def start(self, lease: Lease, *, policy: Path, version: PolicyVersion, accept_length: float) -> None:
        request = wire.pb.StartRequest(
            epoch=lease.epoch,
            ttl_s=lease.ttl_s,
            policy_uri=str(policy),
            policy_version=version,
            drafter_version=lease.newest,
            accept_length=accept_length,
        )
        with translated():
            await self._stub.Start(request, timeout=self._start_s)

    async def preempt(self, epoch: Epoch) -> TrainingProgress:
        with translated():
            response = await self._stub.Preempt(wire.pb.PreemptRequest(epoch=epoch), timeout=self._preempt_s)
        return wire.progress_from_pb(response.progress)

    async def prepare(self, policy: Path, version: PolicyVersion) -> None:
        request = wire.pb.PrepareRequest(policy_uri=str(policy), policy_version=version)
        with translated():
            await self._stub.Prepare(request, timeout=PROGRESS_S)

    async def progress(self) -> TrainingProgress:
        with translated():
            response = await self._stub.GetProgress(wire.pb.GetProgressRequest(), timeout=PROGRESS_S)
        return wire.progress_from_pb(response.progress)
