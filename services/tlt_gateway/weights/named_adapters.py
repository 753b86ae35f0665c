"""Adapters (LoRA) that trainers load and unload by name, as SGLang and vLLM have it."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from tlt_common.domain.bounds import MAX_NAME, require_name
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import ADAPTER_CONFIG, NO_ADAPTER, TensorChunk, UpdateResult, WeightsUpdate
from tlt_common.errors import InvalidRequestError, NotFoundError
from tlt_common.telemetry.log import get_logger
from tlt_common.weights.adapter import MAX_CONFIG_BYTES
from tlt_common.weights.checkpoint import pieces
from tlt_gateway.weights.any_worker import from_any
from tlt_gateway.weights.fanout import WeightsFanout
from tlt_gateway.workers.pooled_worker import PooledState
from tlt_gateway.workers.worker_pool import WorkerPool

log = get_logger(__name__)


class NamedAdapters:
    """
    Makes the adapter of a name the policy of the fleet, or the base without one.

    One adapter at a time is served: loading one replaces another, and its name. It is merged into the last whole
    weights, whose digest these protocols do not send: only names and shapes are compared.
    """

    def __init__(self, pool: WorkerPool, weights: WeightsFanout) -> None:
        self._pool = pool
        self._weights = weights

    @property
    def name(self) -> str:
        """Name of the served adapter; empty if it has none, or there is none."""
        return self._weights.adapter_name

    async def load(
        self,
        name: str,
        source: str | bytes,
        version: PolicyVersion | None = None,
        *,
        config: Mapping[str, Any] | None = None,
    ) -> UpdateResult:
        """
        Install an adapter on all workers, or on none.

        Args:
            name: The name.
            source: URI of a directory as PEFT saves it, which one worker reads once; or pickled tensors.
            version: The version that it becomes; None: the next.
            config: Content of adapter_config.json; None: it is in the directory.

        Raises:
            InvalidRequestError: The name is empty or too long, or the configuration is too large.
            WeightsError: The adapter does not fit the base, or is of a kind that is not merged exactly.
            WeightsUnreadableError: No worker can read it.
            TltError: As for `WeightsFanout.update`. The previous weights stay in use.
        """
        require_name("lora_name", name, least=1, most=MAX_NAME)
        content = b"" if config is None else json.dumps(config).encode()
        if len(content) > MAX_CONFIG_BYTES:
            raise InvalidRequestError(
                f"config_dict has {len(content)} bytes; accepted: at most {MAX_CONFIG_BYTES}", field="config_dict"
            )
        async with aclosing(self._read(source)) as tensors:
            # Before the update, in which no tensor may be waited for as long as a worker may need to read a pickle.
            first = await anext(tensors)
            return await self._install(_joined(content, first, tensors), version, name)

    async def unload(self, name: str, version: PolicyVersion | None = None) -> UpdateResult:
        """
        Install the base without an adapter, as a version of its own.

        Raises:
            NotFoundError: No adapter of this name is served.
            TltError: As for `WeightsFanout.update`. The adapter stays in use.
        """
        if name != self.name:
            await self._weights.refresh()
        if not name or name != self.name:
            raise NotFoundError(f"lora_name is {name!r}; loaded: {self.name or 'none'}", field="lora_name")
        return await self._install(_config(NO_ADAPTER), version, "")

    async def is_loaded(self, name: str) -> bool:
        """Return whether requests may ask for an adapter of this name. Another gateway may have just loaded it."""
        if name != self.name:
            await self._weights.refresh()
        return bool(name) and name == self.name

    async def _install(
        self, tensors: AsyncIterator[TensorChunk], version: PolicyVersion | None, name: str
    ) -> UpdateResult:
        update = WeightsUpdate(version=version, uri=None, adapter_base="", adapter_name=name)
        return await self._weights.update(update, tensors)

    def _read(self, source: str | bytes) -> AsyncGenerator[TensorChunk, None]:
        answering = [worker for worker in self._pool.workers if worker.answers and worker.info is not None]
        return from_any(
            sorted(answering, key=lambda one: (one.state is not PooledState.READY, one.name)),
            lambda worker: worker.remote.receiver.adapter(source),
            nobody="no worker is available for the weights update",
            on_failure=lambda worker, lost: log.warning("adapter_not_read", worker=worker.name, error=lost.message),
        )


async def _joined(
    config: bytes, first: TensorChunk, following: AsyncIterator[TensorChunk]
) -> AsyncIterator[TensorChunk]:
    if config:
        async for chunk in _config(config):
            yield chunk
    yield first
    async for chunk in following:
        yield chunk


async def _config(content: bytes) -> AsyncIterator[TensorChunk]:
    for chunk in pieces(ADAPTER_CONFIG, "U8", (len(content),), memoryview(content)):
        yield chunk
