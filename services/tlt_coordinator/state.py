"""What outlives the coordinator: the newest drafter, the records of all, and an epoch that was never granted."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from tlt_common.domain.fleet import DrafterRecord, DrafterWish
from tlt_common.domain.ids import Epoch
from tlt_common.errors import ConfigError, UnavailableError

STATE_FILE = "coordinator.json"

EPOCH_BLOCK = 1024
"""Epochs reserved at once, so that few grants wait for a disk. A restart skips what is left of the block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One consistent picture; it is written as a whole."""

    drafter: DrafterWish | None = None
    drafters: tuple[DrafterRecord, ...] = ()
    reserved_epoch: Epoch = Epoch(0)
    """No epoch above it was ever granted."""


_CODEC = TypeAdapter(State)


class Store:
    """
    The state, and the file it is kept in. A change is written before it counts.

    Writing is not handed to a thread: it is some kilobytes per published drafter or thousand leases, and so a caller
    that is cancelled cannot leave the file and the memory apart.
    """

    def __init__(self, state: State, path: Path | None) -> None:
        self._state = state
        self._path = path

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
            return cls(_CODEC.validate_json(path.read_bytes()) if path.exists() else State(), path)
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

    def update(self, change: Callable[[State], State]) -> State:
        """
        Replace the state by what `change` makes of it. An error of `change` travels and leaves everything as it was.

        Raises:
            UnavailableError: It could not be written; nothing changed.
        """
        state = change(self._state)
        if self._path is not None and state != self._state:
            try:
                _write(self._path, _CODEC.dump_json(state, indent=1))
            except OSError as error:
                raise UnavailableError(f"{self._path} could not be written: {error.strerror}") from error
        self._state = state
        return state


class Epochs:
    """Numbers for leases, each used once, over restarts too."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last = store.state.reserved_epoch

    @property
    def last(self) -> Epoch:
        """Highest epoch that may have been granted."""
        return self._last

    def seen(self, epoch: Epoch) -> None:
        """An epoch was granted, or a worker says that it once was; it is not given out again."""
        self._last = max(self._last, epoch)

    def reserve(self, count: int) -> None:
        """
        Make sure that `count` epochs above `last` may be granted.

        Raises:
            UnavailableError: They could not be written down; grant none.
        """
        if self._last + count > self._store.state.reserved_epoch:
            reserved = Epoch(self._last + max(count, EPOCH_BLOCK))
            self._store.update(lambda state: replace(state, reserved_epoch=reserved))


def _write(path: Path, content: bytes) -> None:
    # A crash leaves the old file or the new one, never half of it.
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
