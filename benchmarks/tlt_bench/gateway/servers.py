"""The measured processes: a bare server, a scripted worker, and a gateway in front of it."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc

from tlt_common.domain.fleet import WatchReport, WorkerInfo
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import FinishReason, ResponseStats, TokenChunk
from tlt_common.rpc.addresses import announced_in
from tlt_common.rpc.channel import OPTIONS
from tlt_common.rpc.drain import Drain
from tlt_common.wire import rollout, worker
from tlt_gateway.config import GatewayConfig, HttpSettings
from tlt_gateway.main import live
from tlt_worker.requests.request_stream import RequestStream

MAX_RUNNING = 16384
HEARTBEAT_S = 1.0

# Seeds by which a request asks for more than an answer at once, with the next million: the samples of a batch have
# seeds that follow each other.
SEEDS = 2**20
PACED = 1 * SEEDS
"""A round every `ROUND_S` seconds."""
HELD = 2 * SEEDS
"""Nothing after the first token until a request asks for `RELEASE`."""
RELEASE = 3 * SEEDS
WHOLE = 4 * SEEDS
"""All tokens in one round."""
LATE = 5 * SEEDS
"""All tokens in one round, after as long as `PACED` takes."""
ENDS = 6 * SEEDS
"""All tokens in one round, and the response has ended by itself."""
VOCABULARY, LONGEST = 1000, 8192

ROUND_S = 0.02

_released = asyncio.Event()
_CYCLE = tuple(range(VOCABULARY)) * (LONGEST // VOCABULARY + 2)


def tokens(prompt: Sequence[int], begin: int, end: int) -> tuple[int, ...]:
    """Return part of the response to a prompt, which counts up from the first token."""
    first = (prompt[0] + 1) % VOCABULARY
    return _CYCLE[first + begin : first + end]


def chunks(prompt: Prompt) -> list[TokenChunk]:
    """Return a response of one token per chunk, or of one chunk."""
    length, mode = prompt.sampling.max_new_tokens or 1, _mode(prompt)
    size = length if mode in {WHOLE, LATE, ENDS} else 1
    end = FinishReason.STOP if mode == ENDS else FinishReason.LENGTH
    stats = ResponseStats(
        prompt_tokens=len(prompt.token_ids), completion_tokens=length, rounds=length // size, accepted_draft_tokens=0
    )
    return [
        TokenChunk(
            request_id=prompt.request_id,
            token_ids=tokens(prompt.token_ids, place - size, place),
            logprobs=(-1.0,) * size,
            policy_versions=(PolicyVersion(0),) * size,
            finish_reason=end if place == length else None,
            stats=stats if place == length else None,
        )
        for place in range(size, length + 1, size)
    ]


def _mode(prompt: Prompt) -> int:
    return (0 if prompt.sampling.seed is None else prompt.sampling.seed) // SEEDS * SEEDS


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
    mode = _mode(prompt)
    if mode == RELEASE:
        _released.set()
    for place, chunk in enumerate(chunks(prompt)):
        if mode in {PACED, LATE}:
            await asyncio.sleep(ROUND_S * len(chunk.token_ids))
        elif mode == HELD and place == 1:
            await _released.wait()
        yield chunk


async def _watch(
    slots: int, request_iterator: AsyncIterator[worker.pb.WatchRequest], _context: Any
) -> AsyncIterator[worker.pb.WatchResponse]:
    """Report a worker with room for everything."""
    serial = 0
    requests = aiter(request_iterator)
    reading = asyncio.ensure_future(anext(requests, None))
    while True:
        yield worker.report_to_pb(WatchReport(info=_info(slots), slots=slots, serial=serial))
        await asyncio.wait({reading}, timeout=HEARTBEAT_S)
        if reading.done():
            if (request := reading.result()) is None:  # the gateway has gone
                return
            serial = request.serial
            reading = asyncio.ensure_future(anext(requests, None))


async def _abort(_request: worker.pb.AbortRequest, _context: Any) -> worker.pb.AbortResponse:
    """Abort nothing: the gateway hangs up on aborted requests."""
    return worker.pb.AbortResponse()


def _info(slots: int) -> WorkerInfo:
    return WorkerInfo(
        worker_id=WorkerId("scripted"), model="scripted", vocab_size=VOCABULARY, context_length=LONGEST,
        max_running=slots, policy_version=PolicyVersion(0), drafter_version=DrafterVersion(0), running=0,
        device="none",
    )  # fmt: skip


def serve_bare(ready: Connection) -> None:
    """Run the bare server; send its address to `ready`."""
    generate = grpc.unary_stream_rpc_method_handler(
        _generate, rollout.pb.GenerateRequest.FromString, rollout.pb.GenerateResponse.SerializeToString
    )
    asyncio.run(_serve(ready, rollout.SERVICE_NAME, {"Generate": generate}))


def serve_worker(ready: Connection, slots: str = str(MAX_RUNNING)) -> None:
    """Run the scripted worker; send its address to `ready`."""
    generate = grpc.stream_stream_rpc_method_handler(
        _work, worker.pb.GenerateManyRequest.FromString, worker.pb.GenerateManyResponse.SerializeToString
    )
    watch = grpc.stream_stream_rpc_method_handler(
        partial(_watch, int(slots)), worker.pb.WatchRequest.FromString, worker.pb.WatchResponse.SerializeToString
    )
    abort = grpc.unary_unary_rpc_method_handler(
        _abort, worker.pb.AbortRequest.FromString, worker.pb.AbortResponse.SerializeToString
    )
    asyncio.run(_serve(ready, worker.SERVICE_NAME, {"GenerateMany": generate, "Watch": watch, "Abort": abort}))


def serve_gateway(ready: Connection, worker_address: str, tokens: str = "") -> None:
    """Run a gateway in front of the worker, with the token file if one is given; send its address to `ready`."""
    with TemporaryDirectory() as scratch:
        asyncio.run(live(_config(worker_address, Path(scratch), tokens), on_serving=ready.send))


def serve_http_gateway(ready: Connection, worker_address: str) -> None:
    """Run a gateway that serves HTTP too; send both addresses to `ready`, separated by a space."""
    with TemporaryDirectory() as scratch, announced_in(ports := Path(scratch) / "ports.json"):
        config = _config(worker_address, Path(scratch), "", http=HttpSettings(listen="127.0.0.1:0"))

        def serving(address: str) -> None:
            ready.send(f"{address} {json.loads(ports.read_text())['rollout_http']}")

        asyncio.run(live(config, on_serving=serving))


def _config(worker_address: str, scratch: Path, tokens: str, http: HttpSettings | None = None) -> GatewayConfig:
    return GatewayConfig(
        workers=(worker_address,),
        spool_dir=scratch,
        listen="127.0.0.1:0",
        tokens=Path(tokens) if tokens else None,
        http=http or HttpSettings(),
    )


async def _serve(ready: Connection, name: str, methods: dict[str, Any]) -> None:
    server = grpc.aio.server(options=list(OPTIONS))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    ready.send(f"127.0.0.1:{port}")
    await server.wait_for_termination()
