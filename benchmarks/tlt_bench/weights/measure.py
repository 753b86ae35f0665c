"""Measures updates of several workers, with raw copies in between."""

import asyncio
import json
import shutil
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tlt_bench.engines.bench_engine import log
from tlt_bench.ratios import Figures, over
from tlt_bench.result import Result
from tlt_bench.weights.services import gateway, raw, started, worker
from tlt_common.client import Client
from tlt_common.client.tensors import stream
from tlt_common.client.updates import messages
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import WeightsUpdate
from tlt_common.rpc.channel import connect
from tlt_common.wire import rollout as wire
from tlt_gateway.weights.release_store import MANIFEST
from tlt_worker.checkpoints.finite import FiniteCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setup:
    """A number of workers, and whether they read the gateway's file in place."""

    workers: int
    shared: bool

    @property
    def name(self) -> str:
        """Suffix of its figures."""
        return f"{self.workers}_{'shared' if self.shared else 'apart'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """A raw copy and the following update."""

    update_s: float
    copy_s: float


SETUPS = (
    _Setup(workers=1, shared=True),
    _Setup(workers=2, shared=True),
    _Setup(workers=4, shared=True),
    _Setup(workers=8, shared=True),
    _Setup(workers=1, shared=False),
    _Setup(workers=8, shared=False),
)
TENSOR_BYTES = 32 * 2**20
READY_S = 60.0

State = dict[str, Any]


def measure(*, megabytes: int, repeats: int) -> Result:
    """Run the benchmark and return its figures. Progress goes to stderr."""
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        weights = _weights(megabytes)
        rounds = asyncio.run(_measure(weights, repeats, Path(scratch)))
    checks_s = [_checked_s(weights) for _ in range(repeats)]
    found = Figures()
    for setup in SETUPS:
        name, made = setup.name, rounds[setup.name]
        if setup.workers == 1 and not setup.shared:  # the others check the values once all have arrived
            found.add(f"finite_check_share_{name}", over(checks_s, [each.update_s for each in made]))
        found.add(f"weights_vs_copy_{name}", [each.update_s / each.copy_s for each in made])
        found.add(f"seconds_{name}", [each.update_s for each in made])
    found.add("copy_seconds", [each.copy_s for made in rounds.values() for each in made])
    found.figures["gigabytes"] = megabytes * 2**20 / 1e9
    found.notes |= {
        "weights_vs_copy": "seconds of Client.publish_weights from the first byte to the last switch, divided by "
        "seconds of one gRPC stream of the same messages, just before, to a process that writes them to a new file",
        "shared": "worker services in processes of their own that read the gateway's file in place",
        "apart": "the same workers without `spool_shared`: each receives and writes a copy; all share this machine's "
        "cores and disk, which workers on nodes of their own do not",
        "finite_check_share": "seconds in which a worker looks for values that are not finite, while the next piece "
        "arrives, divided by seconds of the update",
        "engine": "replaced: it checks the files' headers and loads nothing",
    }
    return found.result("weights", repeats=repeats)


def _checked_s(weights: State) -> float:
    check, took_s = FiniteCheck(), 0.0
    for chunk in stream(weights):
        began_s = time.perf_counter()
        check.chunk(chunk)
        took_s += time.perf_counter() - began_s
    return took_s


def _weights(megabytes: int) -> State:
    """Return random float32 tensors."""
    random = np.random.default_rng(0)
    count = max(1, megabytes * 2**20 // TENSOR_BYTES)
    return {f"layer.{index}": random.random(TENSOR_BYTES // 4, dtype=np.float32) for index in range(count)}


async def _measure(weights: State, repeats: int, scratch: Path) -> dict[str, list[_Round]]:
    return {setup.name: await _rounds(weights, setup, repeats, scratch / setup.name) for setup in SETUPS}


async def _rounds(weights: State, setup: _Setup, repeats: int, scratch: Path) -> list[_Round]:
    async with AsyncExitStack() as parts:
        parts.callback(shutil.rmtree, scratch)  # the next setup finds the same free memory
        directories = [scratch / f"worker-{number}" for number in range(setup.workers)]
        for directory in (scratch / "raw", scratch / "spool", *directories):
            directory.mkdir(parents=True)
        receiver = await parts.enter_async_context(started(raw, scratch / "raw"))
        addresses = await asyncio.gather(
            *(
                parts.enter_async_context(started(worker, directory, number))
                for number, directory in enumerate(directories)
            )
        )
        endpoint = await parts.enter_async_context(started(gateway, scratch / "spool", tuple(addresses), setup.shared))
        client = await parts.enter_async_context(Client(endpoint))
        await client.wait_ready(READY_S, workers=setup.workers)
        rounds = []
        for version in range(1, repeats + 2):
            copy_s = await _copied(receiver, weights)
            began_s = time.monotonic()
            result = await client.publish_weights(version, weights)
            update_s = time.monotonic() - began_s
            await _kept(scratch / "spool", version)
            log(f"{setup.name}: {update_s:.2f} s; raw copy: {copy_s:.2f} s")
            if result.workers != setup.workers:
                raise RuntimeError(f"{result.workers} of {setup.workers} workers took part")
            if version > 1:  # the first round opens connections and fills caches
                rounds.append(_Round(update_s=update_s, copy_s=copy_s))
    return rounds


async def _kept(spool: Path, version: int) -> None:
    """Wait until the gateway has synced its file to the disk, which would disturb the next copy."""
    async with asyncio.timeout(READY_S):
        while not await asyncio.to_thread(_has_kept, spool, version):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.05)


def _has_kept(spool: Path, version: int) -> bool:
    return any(json.loads(file.read_bytes())["policy_version"] == version for file in spool.glob(f"*/{MANIFEST}"))


async def _copied(receiver: str, weights: State) -> float:
    header = WeightsUpdate(version=PolicyVersion(1), uri=None)
    async with connect(receiver) as channel:
        await channel.channel_ready()
        began_s = time.monotonic()
        await wire.Stub(channel).UpdateWeights(messages(header, stream(weights)))
        return time.monotonic() - began_s
