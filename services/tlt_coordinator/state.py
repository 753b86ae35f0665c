"""State that outlives the coordinator: the drafters, a bound on the epochs granted, and the sums of the ledger."""

import asyncio
import fcntl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Never, Protocol, Self

from pydantic import TypeAdapter, ValidationError

from tlt_common.aio import Signal
from tlt_common.disk import on_disk
from tlt_common.domain.fleet import DrafterRecord, DrafterWish, WorkerState
from tlt_common.domain.ids import Epoch, WorkerId
from tlt_common.errors import ConfigError, InvalidRequestError, UnavailableError
from tlt_common.telemetry.log import get_logger
from tlt_common.whole_file import write_whole

log = get_logger(__name__)

STATE_FILE = "coordinator.json"
LOCK_FILE = "coordinator.lock"

EPOCH_BLOCK = 2**15
"""
Epochs reserved at once, and again when half of them are granted, so that no plan waits for storage, not even if all
workers of a fleet are lent at once. A restart skips the rest of the block.
"""

TOTALS_EVERY_S = 30.0
"""Seconds between two times that the sums of the ledger are stored: as many are lost with a coordinator, at most."""

CLOCKS_S = 86_400.0
"""Seconds by which the clock of an earlier coordinator may have been ahead of this one's."""

RETRY_S = 1.0
"""Seconds to wait after epochs could not be reserved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One consistent state, written as a whole."""

    drafter: DrafterWish | None = None
    drafters: tuple[DrafterRecord, ...] = ()
    reserved_epoch: Epoch = Epoch(0)
    """No epoch above it has been granted."""
    seconds: Mapping[WorkerState, float] = field(default_factory=dict)
    """Device-seconds of the fleet by state."""
    excluded: tuple[WorkerId, ...] = ()
    """Workers that operators excluded from lending."""


STATE_CODEC = TypeAdapter(State)
"""JSON of the state; unknown keys of a later version are ignored."""


def first_state(now_s: float) -> State:
    """
    Return the state of a coordinator that finds none.

    Epochs start at the current time in microseconds, so that they keep increasing although those granted before are not
    known: no coordinator grants a million leases per second.
    """
    return State(reserved_epoch=Epoch(int(now_s * 1_000_000)))


class StateBackend(Protocol):
    """Stores the state."""

    async def write(self, state: State) -> None:
        """
        Replace the stored state.

        Raises:
            UnavailableError: The state may not have been stored. Writing it again is harmless.
            InvalidRequestError: The state can never be stored.
        """


class StateFile:
    """
    Stores the state in a file.

    A thread writes, since a volume may hang: what the coordinator does besides publications goes on. Writes are in the
    order of the calls, those of cancelled callers included, so that the last one stays.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing: asyncio.Future[None] | None = None

    async def write(self, state: State) -> None:
        content = STATE_CODEC.dump_json(state, indent=1)
        if self._writing is not None:
            await asyncio.wait({self._writing})  # of a cancelled caller
        self._writing = asyncio.ensure_future(on_disk(write_whole, self._path, content, durable=True))
        self._writing.add_done_callback(_noticed)
        try:
            await asyncio.shield(self._writing)
        except OSError as error:
            raise UnavailableError(f"{self._path} could not be written: {error.strerror}") from error


def _noticed(writing: asyncio.Future[None]) -> None:
    """Let the error of a write whose caller was cancelled be of no further interest."""
    if not writing.cancelled():
        writing.exception()


@contextmanager
def locked(directory: Path | None) -> Iterator[None]:
    """
    Create a state directory if necessary, and keep other coordinators away from it within the block.

    The kernel releases the lock of a process that ends, however it ends.

    Raises:
        ConfigError: Another coordinator uses the directory, or it cannot be used.
    """
    if directory is None:
        yield
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / LOCK_FILE).open("wb")
    except OSError as error:
        raise _unusable(directory, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"state_dir {directory} is in use by another coordinator: stop it, or choose another directory",
                field="state_dir",
            ) from error
        except OSError as error:  # of file systems without locks
            log.warning("state_dir_not_locked", state_dir=str(directory), reason=error.strerror)
        yield


def _unusable(directory: Path, error: OSError) -> ConfigError:
    return ConfigError(f"state_dir {directory} cannot be used: {error.strerror}", field="state_dir")


class StateStore:
    """
    The state in memory, and its backend. Changes are applied one at a time, and only after they are stored.

    If a caller is cancelled during its change, the change may or may not have been stored. It is not applied or
    announced, and the next change overwrites it; a publication that is repeated after a crash gets the same version.
    """

    def __init__(self, state: State, backing: StateBackend | None) -> None:
        self._state = state
        self._backing = backing
        self._turn = asyncio.Lock()

    @classmethod
    def open(cls, directory: Path | None, *, now_s: float) -> Self:
        """
        Read the state left by an earlier run, in a directory that is `locked`. Without a directory nothing is stored;
        see `first_state`.

        Raises:
            ConfigError: The directory cannot be used, or its file is not a coordinator's state.
        """
        if directory is None:
            return cls(first_state(now_s), None)
        path = directory / STATE_FILE
        try:
            return cls(STATE_CODEC.validate_json(path.read_bytes()), StateFile(path))
        except FileNotFoundError:
            return cls(State(), StateFile(path))
        except OSError as error:
            raise _unusable(directory, error) from error
        except ValidationError as error:
            raise ConfigError(
                f"{path} is not a coordinator's state; remove it to start over, with drafter versions from 1",
                field="state_dir",
            ) from error

    @property
    def state(self) -> State:
        return self._state

    async def update(self, change: Callable[[State], State]) -> State:
        """
        Replace the state by `change(state)`. If `change` raises, the error propagates and nothing changes.

        Raises:
            UnavailableError: The state could not be stored; nothing changed.
            InvalidRequestError: The state can never be stored; nothing changed.
        """
        async with self._turn:
            state = change(self._state)
            if self._backing is not None and state != self._state:
                await self._backing.write(state)
            self._state = state
            return state


class Epochs:
    """Lease epochs, each used once, also over restarts. `run` reserves them in advance."""

    def __init__(self, store: StateStore) -> None:
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

    def require_plausible(self, epoch: Epoch, now_s: float) -> None:
        """
        Check an epoch that a worker reports, before it raises all that follow.

        Raises:
            InvalidRequestError: No coordinator can have granted it: they count up from 0, or from the time in
                microseconds.
        """
        if epoch > (highest := max(self.reserved, int((now_s + CLOCKS_S) * 1_000_000))):
            raise InvalidRequestError(
                f"status.epoch is {epoch}, which no coordinator has granted; accepted: at most {highest}",
                field="status.epoch",
            )

    def seen(self, epoch: Epoch) -> None:
        """Record that an epoch was granted or reported by a worker, so that it is not granted again."""
        if epoch > self._last:
            self._last = epoch
            self._moved.set()

    async def run(self) -> Never:
        """Keep between half a block and a block of epochs reserved, until cancelled."""
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


async def keep_totals(store: StateStore, totals: Callable[[], Mapping[WorkerState, float]]) -> Never:
    """Store the sums of the ledger periodically, until cancelled."""
    while True:
        await asyncio.sleep(TOTALS_EVERY_S)
        try:
            await store.update(lambda state: replace(state, seconds=totals()))
        except UnavailableError as error:
            log.warning("totals_not_stored", reason=error.message)
