"""One rank of a trainer's process group, in a separate process."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from tlt_common.domain.transfer import Broadcast, GroupMember
from tlt_common.errors import UnavailableError
from tlt_common.processes.line_process import LineProcess
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

JOIN_S = 120.0
"""Timeout in seconds for a group to become complete. All its ranks join at about the same time: the trainer's when it
makes the group, and this one when the trainer asks for it."""
BROADCAST_S = 600.0
"""
Timeout in seconds for the tensors of one call to arrive, as torch.distributed has for NCCL. On expiry the rank leaves
the group, and the weights stay as they are.
"""
START_S = 60.0
"""Maximum seconds in which the process starts, beyond the time that joining may take."""


class TrainerGroup:
    """A rank of a group. A call that fails or is cancelled ends the rank: the trainer must create another group."""

    def __init__(self, member: GroupMember, process: LineProcess) -> None:
        self._member = member
        self._process = process

    @classmethod
    async def started(cls, member: GroupMember) -> "TrainerGroup":
        """Start the process that joins a group."""
        program = [sys.executable, "-m", "tlt_worker.weights.receiving.member", json.dumps(asdict(member))]
        process = await LineProcess.start([*program, str(JOIN_S), str(BROADCAST_S)])
        return cls(member, process)

    async def complete(self) -> None:
        """
        Wait until the group is complete. Call it once before receiving.

        Raises:
            UnavailableError: It does not become complete in time, its store is unreachable, or this rank has left.
        """
        member = self._member
        why = (
            f"group {member.name!r} of {member.world_size} ranks at {member.master_address}:{member.master_port} did "
            f"not become complete; this fleet joins as one rank, {member.rank} (GET /get_world_size)"
        )
        await self._answered(None, why, within_s=START_S + JOIN_S)
        log.info("group_joined", group=member.name, rank=member.rank, world_size=member.world_size)

    async def receive(self, broadcast: Broadcast, file: Path) -> None:
        """
        Write the tensors of a broadcast to a safetensors file.

        Raises:
            UnavailableError: The trainer exited or did not broadcast in time. The rank leaves the group.
        """
        order = {"file": str(file), "flat": broadcast.flat, "tensors": [asdict(form) for form in broadcast.tensors]}
        why = f"group {self._member.name!r} broke while {len(broadcast.tensors)} tensors were received; create it again"
        await self._answered(order, why, within_s=BROADCAST_S)

    async def leave(self) -> None:
        """End the process."""
        await self._process.end()

    async def _answered(self, order: object, why: str, *, within_s: float) -> None:
        """Wait for the next answer. Leave the group unless it reports success."""
        try:
            answer = await self._process.answer(order, within_s=within_s)
        except UnavailableError as error:
            raise UnavailableError(f"{why}: {error.message}") from None
        if "error" in answer:
            await self.leave()
            raise UnavailableError(f"{why}: {answer['error']}")
