"""HTTP compared to gRPC at one gateway, with the same prompts and responses, in turn in one run."""

import asyncio
import json
from functools import partial
from typing import Any

import aiohttp

from tlt_bench.gateway import servers
from tlt_bench.gateway.measure import AT_ONCE, CHUNKS, PROMPT, REPEATS, latency_of, rate_of, request
from tlt_bench.gateway.processes import process
from tlt_bench.ratios import Figures, over
from tlt_bench.result import Result
from tlt_common.client import Client
from tlt_common.rpc.channel import plain
from tlt_common.wire import rollout as wire


def measure() -> Result:
    """Compare the two protocols."""
    with (
        process(servers.serve_worker) as (worker, _),
        process(servers.serve_http_gateway, worker) as (addresses, _pid),
    ):
        grpc_address, http_address = addresses.split()
        figures = asyncio.run(_measured(grpc_address, f"http://{http_address}/generate"))
    return figures.result("gateway_http", repeats=REPEATS)


async def _measured(address: str, url: str) -> Figures:
    async with Client(address) as client:
        await client.wait_ready(30)
    rates: dict[str, list[float]] = {"http": [], "http_stream": [], "grpc": []}
    added_ms = []
    connector = aiohttp.TCPConnector(limit=AT_ONCE)
    async with plain(address) as channel, aiohttp.ClientSession(connector=connector) as session:
        stub = wire.Stub(channel)
        for _ in range(REPEATS):
            rates["http"].append(await rate_of(partial(_post, session, url, CHUNKS)))
            rates["grpc"].append(await rate_of(partial(request, stub, CHUNKS)))
            rates["http_stream"].append(await rate_of(partial(_post, session, url, CHUNKS, stream=True)))
            over_http = await latency_of(partial(_post, session, url, 1))
            added_ms.append(1000 * (over_http - await latency_of(partial(request, stub, 1))))
    return _figures(rates, added_ms)


def _figures(rates: dict[str, list[float]], added_ms: list[float]) -> Figures:
    found = Figures()
    for name in ("http", "http_stream", "grpc"):
        found.add(f"{name}_requests_per_s", rates[name])
    for name in ("http", "http_stream"):
        found.add(f"{name}_vs_grpc", over(rates[name], rates["grpc"]))
    found.add("http_added_ms_p50", added_ms, "one request at a time, of one round: HTTP minus gRPC")
    found.notes["http_vs_grpc"] = (
        f"requests/s of /generate over those of Generate, {AT_ONCE} at a time, each of {CHUNKS} rounds with "
        "log-probabilities; both clients run in one process, which shares the cores with gateway and worker"
    )
    return found


async def _post(session: aiohttp.ClientSession, url: str, tokens: int, *, stream: bool = False) -> None:
    """Make a request over HTTP and read its response."""
    body: dict[str, Any] = {
        "input_ids": PROMPT,
        "sampling_params": {"max_new_tokens": tokens},
        "return_logprob": True,
        "stream": stream,
    }
    async with session.post(url, json=body) as answer:
        content = await answer.read()
    found = json.loads(content.split(b"\n\n")[-3].removeprefix(b"data: ") if stream else content)
    if len(found["output_ids"]) != tokens:
        raise AssertionError(f"{len(found['output_ids'])} of {tokens} tokens: {content!r:.200}")
