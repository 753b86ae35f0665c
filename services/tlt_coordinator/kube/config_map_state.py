"""
The coordinator's ConfigMap: stores its state, and tells it that another coordinator is at work.

Two coordinators can run at once, as when a node is lost and its pod replaced. Every write is based on the resource
version last seen, so that the first write of the newer one makes those of the older one fail, and the older one ends.
Until then, and whatever is still on its way from it, epochs keep them apart: each grants only those it has reserved by
a write, and the newer one reserves higher ones.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Never
from uuid import uuid4

from pydantic import ValidationError

from tlt_common.errors import ConfigError, InvalidRequestError, UnavailableError
from tlt_common.telemetry.log import get_logger
from tlt_coordinator.config import KubernetesSettings
from tlt_coordinator.kube.api import ApiError, ConfigMapObject, ConflictError, Kube, KubeRefusedError, MissingError
from tlt_coordinator.kube.refusals import Refusals
from tlt_coordinator.state import STATE_CODEC, State, first_state

log = get_logger(__name__)

STATE, WRITER = "state", "writer"
"""Keys of the ConfigMap: the state as JSON, and the process that wrote it, as POD_UUID."""

STATE_BYTES = 1_000_000
"""Maximum size of the state, in bytes: a ConfigMap holds 1 MiB. 1,024 records of drafters take 150 kB, and an excluded
worker takes as much as its name."""

CALL_S = 10.0
"""Time limit, in seconds, for a write with all its calls."""

RETRY_S = 2.0
"""Seconds between attempts to read the state at start."""


class ConfigMapState:
    """
    Implements `StateBackend`.

    Args:
        refusals: Records the permissions that are missing.
    """

    def __init__(self, kube: Kube, settings: KubernetesSettings, refusals: Refusals) -> None:
        self._kube = kube
        self._name = settings.config_map
        # A restarted container must not identify itself as the process that was killed in it.
        self._writer = f"{settings.pod}_{uuid4()}"
        self._refusals = refusals
        self._last: ConfigMapObject | None = None
        """As last read or written by this process; None: it did not exist."""
        self._superseded = ""
        """Why this coordinator must end; empty: it need not."""
        self._ended = asyncio.Event()

    async def read(self, now: Callable[[], float]) -> State:
        """
        Read the state, retrying until the API server answers; without a ConfigMap, return a first state.

        Args:
            now: Returns the Unix time. Asked once there is no ConfigMap: one that was deleted may have been that of a
                coordinator which began in the meantime.

        Raises:
            ConfigError: The ConfigMap holds something else.
        """
        while True:
            try:
                self._last = await self._kube.config_map(self._name)
            except ApiError as error:
                self._note(error)
                await asyncio.sleep(RETRY_S)
            else:
                return first_state(now()) if self._last is None else decoded(self._last.data, self._name)

    async def write(self, state: State) -> None:
        text = encoded(state)
        try:
            async with asyncio.timeout(CALL_S):
                await self._write({STATE: text, WRITER: self._writer})
        except (ApiError, TimeoutError) as error:
            self._note(error)
            raise UnavailableError(f"the ConfigMap {self._name} could not be written: {_reason(error)}") from error

    async def run(self) -> Never:
        """
        Wait until a write shows that this coordinator must end.

        Raises:
            UnavailableError: Another coordinator has written the ConfigMap, or somebody has deleted it.
        """
        await self._ended.wait()
        raise UnavailableError(self._superseded)

    async def _write(self, data: Mapping[str, str]) -> None:
        try:
            self._last = await self._put(data)
        except (ConflictError, MissingError):
            found = await self._kube.config_map(self._name)
            if found is None or found.data.get(WRITER) != self._writer:
                self._end(found)
                raise UnavailableError(self._superseded) from None
            # It is this process's: the response to a write was lost, or somebody has changed the metadata.
            self._last = found
            self._last = await self._put(data)

    async def _put(self, data: Mapping[str, str]) -> ConfigMapObject:
        if self._last is None:
            return await self._kube.create_config_map(self._name, data)
        return await self._kube.replace_config_map(self._name, replace(self._last, data={**self._last.data, **data}))

    def _end(self, found: ConfigMapObject | None) -> None:
        pod = found.data.get(WRITER, "").rpartition("_")[0] if found else ""
        what = f"was written by another coordinator ({pod or 'of unknown name'})" if found else "was deleted"
        self._superseded = (
            f"the ConfigMap {self._name} {what}: this coordinator ends; restarted, it goes on with what is stored there"
        )
        self._ended.set()

    def _note(self, error: ApiError | TimeoutError) -> None:
        """Log why a call failed."""
        if isinstance(error, KubeRefusedError):
            self._refusals.note(error, consequence="the state is not stored, and no worker is lent")
        else:
            log.warning("state_out_of_reach", config_map=self._name, reason=_reason(error))


def encoded(state: State) -> str:
    """
    Return the state as stored.

    Raises:
        InvalidRequestError: It is too large for a ConfigMap.
    """
    content = STATE_CODEC.dump_json(state)
    if len(content) > STATE_BYTES:
        raise InvalidRequestError(
            f"the state would have {len(content)} bytes, and a ConfigMap holds {STATE_BYTES}: use a shorter uri, or "
            "exclude fewer workers"
        )
    return content.decode()


def decoded(data: Mapping[str, str], name: str) -> State:
    """
    Return the stored state.

    Raises:
        ConfigError: It is not a coordinator's.
    """
    try:
        return STATE_CODEC.validate_json(data.get(STATE, ""))
    except ValidationError as error:
        raise ConfigError(
            f"the ConfigMap {name} does not hold a coordinator's state; delete it to start over; drafter versions then "
            "continue from those loaded by workers",
            field="kubernetes.config_map",
        ) from error


def _reason(error: ApiError | TimeoutError) -> str:
    return str(error) or "timed out"
