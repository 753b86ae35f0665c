"""Notifies the trainer of served weights, so that it reads them before its next lease."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Never

from tlt_common.domain.ids import PolicyVersion
from tlt_common.errors import TltError
from tlt_common.telemetry.log import get_logger
from tlt_worker.lending.trainer_control import TrainerControl

log = get_logger(__name__)


class PolicyNotice:
    """
    Args:
        link: The trainer.
        policy: Returns the directory and version of the served weights.
    """

    def __init__(self, link: TrainerControl, policy: Callable[[], tuple[Path, PolicyVersion]]) -> None:
        self._link = link
        self._policy = policy
        self._due = asyncio.Event()

    def give(self) -> None:
        """Schedule a notification, because weights were committed or another trainer process responds."""
        self._due.set()

    async def run(self) -> Never:
        """Run until cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            policy, version = self._policy()
            try:
                await self._link.prepare(policy, version)
            except TltError as error:  # the lease reads them
                log.debug("policy_not_prepared", policy_version=version, error=error.message)
