"""The benchmark's processes: a raw receiver, a gateway, and workers. Each reports its address through a pipe."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc

from tlt_bench.simulated_engine import SimulatedEngine
from tlt_common.domain.ids import PolicyVersion
from tlt_common.rpc.server import Service, serving
from tlt_common.weights.message_buffers import keep_message_buffers
from tlt_common.wire import rollout as wire
from tlt_gateway.config import GatewayConfig
from tlt_gateway.main import live as gateway_live
from tlt_worker.checkpoints.policy import read_headers, total_bytes
from tlt_worker.config import TrainerSettings, WorkerConfig
from tlt_worker.main import live as worker_live

START_S = 120.0
FILES = 2
"""Files a raw receiver keeps: the newest and the one before, as a gateway does."""


class _UnmeasuredEngine(SimulatedEngine):
    """Accepts weights of any shape after reading their headers, and loads nothing, since loading is not measured."""

    async def check_weights(self, directory: Path) -> int:
        await asyncio.to_thread(read_headers, directory)
        return total_bytes(directory)

    async def load_weights(self, _directory: Path, version: PolicyVersion) -> float:
        self._version = version
        return 0.0


def raw_receiver(directory: Path) -> grpc.GenericRpcHandler:
    """
    Return a handler of UpdateWeights that writes the tensors of a stream to a new file, without checks. It keeps the
    previous file, as an update does: overwriting it would reuse its memory.
    """
    files = (directory / f"raw-{number}" for number in count())
    kept: deque[Path] = deque()

    async def receive(
        messages: AsyncIterator[wire.pb.UpdateWeightsRequest], _context: Any
    ) -> wire.pb.UpdateWeightsResponse:
        kept.append(next(files))
        with kept[-1].open("xb", buffering=0) as file:
            async for message in messages:
                file.write(message.tensor.data)
        if len(kept) > FILES:
            kept.popleft().unlink()
        return wire.pb.UpdateWeightsResponse()

    method = grpc.stream_unary_rpc_method_handler(
        receive,
        request_deserializer=wire.pb.UpdateWeightsRequest.FromString,
        response_serializer=wire.pb.UpdateWeightsResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(wire.SERVICE_NAME, {"UpdateWeights": method})


async def raw(directory: Path, announce: Callable[[str], None]) -> None:
    keep_message_buffers()  # as the services do
    handler = raw_receiver(directory)
    service = Service(name=wire.SERVICE_NAME, add=lambda server: server.add_generic_rpc_handlers((handler,)))
    async with serving("127.0.0.1:0", service) as server:
        announce(f"127.0.0.1:{server.port}")
        await asyncio.Event().wait()


async def gateway(directory: Path, workers: tuple[str, ...], shared: bool, announce: Callable[[str], None]) -> None:
    config = GatewayConfig(listen="127.0.0.1:0", workers=workers, spool_dir=directory, spool_shared=shared)
    await gateway_live(config, on_serving=announce)


async def worker(directory: Path, number: int, announce: Callable[[str], None]) -> None:
    config = WorkerConfig(
        model=directory,
        worker_id=f"worker-{number}",
        listen="127.0.0.1:0",
        run_dir=directory,
        trainer=TrainerSettings(enabled=False),
    )
    await worker_live(config, _UnmeasuredEngine(), on_serving=announce)


@asynccontextmanager
async def started(service: Callable[..., Any], *arguments: Any) -> AsyncIterator[str]:
    """Run a service in its own process until the end of the block; yield its address."""
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(theirs, service, arguments), daemon=True)
    process.start()
    try:
        if not await asyncio.to_thread(ours.poll, START_S):
            raise TimeoutError(f"{service.__name__} did not start within {START_S:g} s")
        yield ours.recv()
    finally:
        process.terminate()
        await asyncio.to_thread(process.join, 10)
        if process.is_alive():
            process.kill()


def _run(pipe: Connection, service: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    asyncio.run(service(*arguments, pipe.send))
