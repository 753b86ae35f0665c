"""A real Redis Cluster of a few nodes without replicas."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from redis.asyncio import Redis

from tlt_cache.embedded import executable

START_S = 20.0
LOOK_S = 0.05
SLOTS = 16384


class Node:
    """One primary; it can be killed and started again at its port."""

    def __init__(self, directory: Path, port: int) -> None:
        self.port = port
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._directory.mkdir(exist_ok=True)
        self._process = await asyncio.create_subprocess_exec(
            *(executable(), "--port", str(self.port), "--bind", "127.0.0.1"),
            *("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no", "--cluster-node-timeout", "500"),
            *("--save", "", "--appendonly", "no", "--dir", str(self._directory)),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(START_S):
            while not await self._listens():
                assert self._process.returncode is None
                await asyncio.sleep(LOOK_S)

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def command(self, *words: str | int) -> object:
        async with Redis(port=self.port) as client:
            return await client.execute_command(*words)  # type: ignore[no-untyped-call] # redis has no types for it

    async def memory(self) -> int:
        async with Redis(port=self.port) as client:
            return int((await client.info("memory"))["used_memory"])

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        await writer.wait_closed()
        return True


@asynccontextmanager
async def redis_cluster(directory: Path, count: int = 3) -> AsyncIterator[list[Node]]:
    """Start a cluster whose nodes have equal ranges of slots, as `redis-cli --cluster create` makes it."""
    nodes = [Node(directory / f"node{number}", _free_port()) for number in range(count)]
    async with AsyncExitStack() as stack:
        for number, node in enumerate(nodes):
            stack.push_async_callback(node.kill)
            await node.start()
            await node.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            slots = range(SLOTS * number // count, SLOTS * (number + 1) // count)
            await node.command("CLUSTER", "ADDSLOTS", *slots)
        for node in nodes[1:]:
            await node.command("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        async with asyncio.timeout(START_S):
            for node in nodes:
                while not await _knows_all(node, count):  # noqa: ASYNC110 - nothing tells when a node knows
                    await asyncio.sleep(LOOK_S)
        yield nodes


async def _knows_all(node: Node, count: int) -> bool:
    async with Redis(port=node.port) as client:
        info = await client.execute_command("CLUSTER INFO")  # type: ignore[no-untyped-call] # redis has no types for it
    found = {str(key): str(value) for key, value in info.items()}
    return (found["cluster_state"], found["cluster_slots_assigned"]) == ("ok", str(SLOTS)) and found[
        "cluster_size"
    ] == str(count)


def _free_port() -> int:
    """Return a port that is free, as is its bus port 10,000 above it: without that, a node listens and then exits."""
    while True:
        with socket.socket() as listening, socket.socket() as bus:
            listening.bind(("127.0.0.1", 0))
            port = int(listening.getsockname()[1])
            with suppress(OSError, OverflowError):  # it is in use, or above all ports
                bus.bind(("127.0.0.1", port + 10_000))
                return port
