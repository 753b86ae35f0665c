"""What outlives the coordinator: the newest drafter, the records of all, and an epoch that was never granted."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Never, Protocol, Self

from pydantic import TypeAdapter, ValidationError

from tlt_common.aio import Signal
from tlt_common.domain.fleet import DrafterRecord, DrafterWish
from tlt_common.domain.ids import Epoch
from tlt_common.errors import ConfigError, UnavailableError
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

STATE_FILE = "coordinator.json"

EPOCH_BLOCK = 1024
"""
Epochs reserved at once, and again when half of them are granted, so that no plan waits for what keeps the state. A
restart skips what is left of the block.
"""

RETRY_S = 1.0
"""Pause after epochs could not be reserved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One consistent picture; it is written as a whole."""

    drafter: DrafterWish | None = None
    drafters: tuple[DrafterRecord, ...] = ()
    reserved_epoch: Epoch = Epoch(0)
    """No epoch above it was ever granted."""


STATE_CODEC = TypeAdapter(State)
"""JSON of the state; unknown keys of a later version are passed over."""


class Backing(Protocol):
    """What keeps the state."""

    async def write(self, state: State) -> None:
        """
        Keep a state in place of the one before.

        Raises:
            UnavailableError: It may not have been kept. Writing again is harmless.
            InvalidRequestError: It can never be kept.
        """


class StateFile:
    """
    Keeps the state in a file.

    Writing is not handed to a thread: it is some kilobytes per published drafter or thousand leases, and so a caller
    that is cancelled cannot leave the file and the memory apart.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def write(self, state: State) -> None:
        # A crash leaves the old file or the new one, never half of it.
        temporary = self._path.with_suffix(".tmp")
        try:
            with temporary.open("wb") as file:
                file.write(STATE_CODEC.dump_json(state, indent=1))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as error:
            raise UnavailableError(f"{self._path} could not be written: {error.strerror}") from error


class Store:
    """
    The state, and what keeps it. A change is kept before it counts, one after the other.

    A caller that is cancelled while its change is on the way leaves open whether it was kept. It never counts, nobody
    was told of it, and the next change replaces it; a publication that is repeated after a crash gets the same version.
    """

    def __init__(self, state: State, backing: Backing | None) -> None:
        self._state = state
        self._backing = backing
        self._turn = asyncio.Lock()

    @classmethod
    def open(cls, directory: Path | None, *, now_s: float) -> Self:
        """
        Read what an earlier run left.

        Without a directory nothing is kept. Epochs then begin at the time in milliseconds: a restart goes on upward
        unless more than a thousand leases were granted per second.

        Raises:
            ConfigError: The directory cannot be used, or the file in it is not ours.
        """
        if directory is None:
            return cls(State(reserved_epoch=Epoch(int(now_s * 1000))), None)
        path = directory / STATE_FILE
        try:
            directory.mkdir(parents=True, exist_ok=True)
            return cls(STATE_CODEC.validate_json(path.read_bytes()) if path.exists() else State(), StateFile(path))
        except OSError as error:
            raise ConfigError(f"state_dir {directory} cannot be used: {error.strerror}", field="state_dir") from error
        except ValidationError as error:
            raise ConfigError(
                f"{path} is not a coordinator's state; remove it to start afresh, with drafters counted from 1",
                field="state_dir",
            ) from error

    @property
    def state(self) -> State:
        return self._state

    async def update(self, change: Callable[[State], State]) -> State:
        """
        Replace the state by what `change` makes of it. An error of `change` travels and leaves everything as it was.

        Raises:
            UnavailableError: It could not be kept; nothing changed.
            InvalidRequestError: It can never be kept; nothing changed.
        """
        async with self._turn:
            state = change(self._state)
            if self._backing is not None and state != self._state:
                await self._backing.write(state)
            self._state = state
            return state


class Epochs:
    """Numbers for leases, each used once, over restarts too. `run` reserves them ahead."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last = store.state.reserved_epoch
        self._moved = Signal()

    @property
    def last(self) -> Epoch:
        """Highest epoch that may have been granted."""
        return self._last

    @property
    def reserved(self) -> Epoch:
        """Highest epoch that may be granted now."""
        return self._store.state.reserved_epoch

    def seen(self, epoch: Epoch) -> None:
        """An epoch was granted, or a worker says that it once was; it is not given out again."""
        if epoch > self._last:
            self._last = epoch
            self._moved.set()

    async def run(self) -> Never:
        """Keep between half a block and a block in reserve, until cancelled."""
        while True:
            seen = self._moved.count
            if self.reserved - self._last > EPOCH_BLOCK // 2:
                await self._moved.beyond(seen)
                continue
            try:
                await self._store.update(self._with_a_block)
            except UnavailableError as error:
                log.warning("epochs_not_reserved", left=max(0, self.reserved - self._last), reason=error.message)
                await asyncio.sleep(RETRY_S)

    def _with_a_block(self, state: State) -> State:
        return replace(state, reserved_epoch=Epoch(self._last + EPOCH_BLOCK))
