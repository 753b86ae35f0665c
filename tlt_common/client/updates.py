"""Weight updates, retried until a gateway has confirmed them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from os import PathLike, fspath
from typing import Any, TypeAlias

from tlt_common.client.adapters import PreparedAdapter, require_whole
from tlt_common.client.gateways import Gateways
from tlt_common.client.patience import Patience
from tlt_common.client.tensors import size_of, stream
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import TensorChunk, UpdateResult, WeightsUpdate
from tlt_common.errors import TltError
from tlt_common.rpc.errors import translated
from tlt_common.rpc.streams import answered
from tlt_common.weights.message_buffers import keep_message_buffers
from tlt_common.weights.update_key import generated_key
from tlt_common.wire import rollout as wire

Weights: TypeAlias = str | PathLike[str] | Mapping[str, Any]
"""A directory, or tensors by name."""


async def publish(
    gateways: Gateways,
    version: int | None,
    weights: Weights,
    patience: Patience,
    *,
    base: int | None = None,
) -> UpdateResult:
    """
    Publish weights at the next reachable gateway. See `Client.publish_weights`.

    All attempts share an idempotency key: an update that was applied, but whose answer was lost, is not applied again.
    """
    require_whole(weights)
    uri = None if isinstance(weights, Mapping) else fspath(weights)
    header = WeightsUpdate(
        version=None if version is None else PolicyVersion(version),
        uri=uri,
        key=generated_key(),
        size_bytes=size_of(weights) if isinstance(weights, Mapping) else 0,
        base=None if base is None else PolicyVersion(base),
    )
    return await _sent(
        gateways, header, lambda: stream(weights) if isinstance(weights, Mapping) else iter(()), patience
    )


async def publish_adapter(
    gateways: Gateways, version: int | None, adapter: PreparedAdapter, patience: Patience
) -> UpdateResult:
    """Publish an adapter at the next reachable gateway. See `Client.publish_adapter`."""
    header = WeightsUpdate(
        version=None if version is None else PolicyVersion(version),
        uri=None,
        key=generated_key(),
        size_bytes=adapter.size_bytes,
        adapter_base=adapter.base,
    )
    return await _sent(gateways, header, adapter.chunks, patience)


async def _sent(
    gateways: Gateways, header: WeightsUpdate, tensors: Callable[[], Iterator[TensorChunk]], patience: Patience
) -> UpdateResult:
    while True:
        stub = gateways.stub
        try:
            with translated():
                call = partial(stub.UpdateWeights, timeout=patience.left_s)
                return wire.result_from_pb(await answered(call, messages(header, tensors())))
        except TltError as error:
            gateways.failed(stub, error)
            await patience.after(error, "the next update" if header.version is None else f"update {header.version}")


async def messages(
    header: WeightsUpdate, tensors: Iterator[TensorChunk]
) -> AsyncIterator[wire.pb.UpdateWeightsRequest]:
    """Encode an update. While one piece is sent, the next one is copied, possibly from a GPU."""
    keep_message_buffers()
    loop = asyncio.get_running_loop()
    upcoming = loop.run_in_executor(None, next, tensors, None)
    try:
        yield wire.update_to_pb(header)
        while (part := await upcoming) is not None:
            upcoming = loop.run_in_executor(None, next, tensors, None)
            yield wire.update_to_pb(part)
    finally:
        upcoming.cancel()
