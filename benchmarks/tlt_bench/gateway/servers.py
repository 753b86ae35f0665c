"""The processes that are measured: a bare server, a scripted worker, and a gateway in front of it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc

from tlt_common.domain.fleet import WatchReport, WorkerInfo
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId, WorkerId
from tlt_common.domain.rollout import FinishReason, Prompt, ResponseStats, TokenChunk
from tlt_common.rpc.channel import OPTIONS
from tlt_common.rpc.drain import Drain
from tlt_common.wire import rollout, worker
from tlt_gateway.config import GatewayConfig
from tlt_gateway.main import live
from tlt_worker.request_stream import RequestStream

MAX_RUNNING = 16384
HEARTBEAT_S = 1.0
ROUND_S = 0.02
"""Seconds per round of a paced response."""
PACED = 65
"""Prompt length by which a paced response is asked for."""


def chunks(prompt: Prompt) -> list[TokenChunk]:
    """Return a response of one token per chunk."""
    length = prompt.sampling.max_new_tokens or 1
    stats = ResponseStats(
        prompt_tokens=len(prompt.token_ids), completion_tokens=length, rounds=length, accepted_draft_tokens=0
    )
    return [
        TokenChunk(
            request_id=RequestId(prompt.request_id),
            token_ids=(place % 1000,),
            logprobs=(-1.0,),
            policy_versions=(PolicyVersion(0),),
            finish_reason=FinishReason.LENGTH if place == length else None,
            stats=stats if place == length else None,
        )
        for place in range(1, length + 1)
    ]


async def _generate(request: rollout.pb.GenerateRequest, _context: Any) -> AsyncIterator[rollout.pb.GenerateResponse]:
    """Answer without a gateway's work."""
    async for chunk in _answer(rollout.prompt_from_pb(request.prompt)):
        yield rollout.pb.GenerateResponse(chunk=rollout.chunk_to_pb(chunk))


async def _work(
    request_iterator: AsyncIterator[worker.pb.GenerateManyRequest], _context: Any
) -> AsyncIterator[worker.pb.GenerateManyResponse]:
    """Answer as a worker."""
    async with aclosing(RequestStream(_answer, Drain()).parts(worker.requests_from_pb(request_iterator))) as messages:
        async for parts in messages:
            yield worker.parts_to_pb(parts)


async def _answer(prompt: Prompt) -> AsyncGenerator[TokenChunk, None]:
    """Yield a chunk per round, at once or, for a prompt of `PACED` tokens, at the pace of an engine."""
    for chunk in chunks(prompt):
        if len(prompt.token_ids) == PACED:
            await asyncio.sleep(ROUND_S)
        yield chunk


async def _watch(
    request_iterator: AsyncIterator[worker.pb.WatchRequest], _context: Any
) -> AsyncIterator[worker.pb.WatchResponse]:
    """Report a worker that has room for everything."""
    serial = 0
    requests = aiter(request_iterator)
    reading = asyncio.ensure_future(anext(requests))
    while True:
        yield worker.report_to_pb(WatchReport(info=_info(), slots=MAX_RUNNING, serial=serial))
        await asyncio.wait({reading}, timeout=HEARTBEAT_S)
        if reading.done():
            if reading.exception() is not None:  # the gateway has gone
                return
            serial = reading.result().serial
            reading = asyncio.ensure_future(anext(requests))


def _info() -> WorkerInfo:
    return WorkerInfo(
        worker_id=WorkerId("scripted"), model="scripted", vocab_size=1000, context_length=4096, max_running=MAX_RUNNING,
        policy_version=PolicyVersion(0), drafter_version=DrafterVersion(0), running=0, device="none",
    )  # fmt: skip


def serve_bare(ready: Connection) -> None:
    """Run the bare server; send its address to `ready`."""
    generate = grpc.unary_stream_rpc_method_handler(
        _generate, rollout.pb.GenerateRequest.FromString, rollout.pb.GenerateResponse.SerializeToString
    )
    asyncio.run(_serve(ready, rollout.SERVICE_NAME, {"Generate": generate}))


def serve_worker(ready: Connection) -> None:
    """Run the scripted worker; send its address to `ready`."""
    generate = grpc.stream_stream_rpc_method_handler(
        _work, worker.pb.GenerateManyRequest.FromString, worker.pb.GenerateManyResponse.SerializeToString
    )
    watch = grpc.stream_stream_rpc_method_handler(
        _watch, worker.pb.WatchRequest.FromString, worker.pb.WatchResponse.SerializeToString
    )
    asyncio.run(_serve(ready, worker.SERVICE_NAME, {"GenerateMany": generate, "Watch": watch}))


def serve_gateway(ready: Connection, worker_address: str) -> None:
    """Run a gateway in front of the worker; send its address to `ready`."""
    with TemporaryDirectory() as scratch:
        config = GatewayConfig(workers=(worker_address,), spool_dir=Path(scratch), listen="127.0.0.1:0")
        asyncio.run(live(config, on_serving=ready.send))


async def _serve(ready: Connection, name: str, methods: dict[str, Any]) -> None:
    server = grpc.aio.server(options=list(OPTIONS))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    ready.send(f"127.0.0.1:{port}")
    await server.wait_for_termination()
