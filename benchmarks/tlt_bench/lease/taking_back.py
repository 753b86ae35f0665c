"""Leases of random length, granted and revoked while the trainer trains, scores, merges, publishes, saves and waits."""

import asyncio
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch

from countdown.model import CHECKPOINT
from tlt_bench.engines.bench_engine import log
from tlt_bench.lease.percentiles import add_percentiles
from tlt_bench.lease.servicer import Drafters
from tlt_bench.lease.trainer import RunningTrainer, running
from tlt_bench.random_frame import random_frame
from tlt_bench.ratios import Figures
from tlt_cache.config import CacheConfig
from tlt_cache.main import cache_service
from tlt_common.codec import encode
from tlt_common.domain.fleet import Lease
from tlt_common.domain.hidden import EncodedFrame, prompt_hash
from tlt_common.domain.ids import Epoch, PolicyVersion
from tlt_common.rpc.channel import connect
from tlt_common.rpc.server import Service, serving
from tlt_common.wire import coordinator as wire
from tlt_common.wire import hidden
from tlt_trainer.drafter.shared_weights import read_format

WINDOWS = 320
SHORTEST_TOKENS, LONGEST_TOKENS = 64, 256
SETTINGS: Mapping[str, str] = {
    # Whatever a trainer does beside training comes about once per second.
    "publish.every_tokens": "2048",
    "publish.first_gain": "0",
    "publish.gain": "0",
    "checkpoint_every_s": "1",
    # At the default niceness every other process of the machine is measured too: none may delay a call on the device.
    "nice": "0",
}
SHORTEST_S, LONGEST_S = 0.02, 2.0
"""Duration of a lease, in seconds."""
PAUSES_S = (0.0, 0.01, 0.3)
"""Seconds between leases, at most: the next one may find the trainer busy with the end of the last one."""
NEW_POLICY_EVERY = 4
OVERTAKEN_EVERY = 5
TTL_S = 60.0
SETTLED_S = 0.5
IDLE_CALLS = 100


@dataclass(slots=True)
class LeaseWaits:
    """Latencies in milliseconds."""

    grants: list[float] = field(default_factory=list)
    revokes: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Revocations, by the trainer's activity."""
    idle: list[float] = field(default_factory=list)
    """Revocations of leases that had ended."""

    @property
    def all_revokes(self) -> list[float]:
        return [wait for waits in self.revokes.values() for wait in waits]


def measure(*, leases: int, policy: Path = CHECKPOINT, seed: int = 0) -> Figures:
    """Return how long grants and revocations take while a drafter for this policy is trained."""
    rng = random.Random(seed)
    return figures_of(asyncio.run(_measure(policy, leases, rng)))


def figures_of(waits: LeaseWaits) -> Figures:
    """Return the figures."""
    found = Figures()
    for name, values in (
        ("grant", waits.grants),
        ("revoke", waits.all_revokes),
        ("revoke_idle", waits.idle),
    ):
        add_percentiles(found, f"{name}_ms", values)
    for doing, values in sorted(waits.revokes.items()):
        key = f"revoke_ms_max_{doing}"
        found.figures[key], found.spread[key] = max(values), (min(values), max(values))
        found.notes[key] = f"{len(values)} revocations"
    return found


async def _measure(served: Path, leases: int, rng: random.Random) -> LeaseWaits:
    drafters, waits = Drafters(), LeaseWaits()  # type: ignore[abstract]
    async with started(random_frames(rng, served), drafters, served) as trainer:
        sent_s: dict[int, float] = {}
        asked: dict[int, float] = {}
        policy = PolicyVersion(0)
        for number in range(1, leases + 1):
            policy = PolicyVersion(number // NEW_POLICY_EVERY)
            if number % OVERTAKEN_EVERY == 0:
                drafters.overtake()
            lease = Lease(epoch=Epoch(number), ttl_s=TTL_S, newest=drafters.version)
            sent_s[number] = time.monotonic()
            await trainer.link.start(lease, policy=served, version=policy, accept_length=0.0)
            await asyncio.sleep(rng.uniform(SHORTEST_S, LONGEST_S) if number > 1 else LONGEST_S)
            began_s = time.monotonic()
            await trainer.link.preempt(lease.epoch)
            asked[number] = 1000 * (time.monotonic() - began_s)
            await asyncio.sleep(rng.uniform(0, rng.choice(PAUSES_S)))
            if number % 50 == 0:
                log(f"  lease {number} of {leases}")
        await asyncio.sleep(SETTLED_S)  # for the last events
        for _ in range(IDLE_CALLS):
            began_s = time.monotonic()
            await trainer.link.preempt(Epoch(leases))
            waits.idle.append(1000 * (time.monotonic() - began_s))
            await asyncio.sleep(PAUSES_S[1])
    for number, at_s in trainer.log.began_at_s.items():
        if number > 1:  # the first had no data yet
            waits.grants.append(1000 * (at_s - sent_s[number]))
    for number, wait_ms in asked.items():
        waits.revokes[trainer.log.doing[number]].append(wait_ms)
    log(f"  {trainer.log.drafters} drafters published, {trainer.log.merges} followed")
    return waits


@asynccontextmanager
async def started(
    frames: Sequence[EncodedFrame], drafters: Drafters, policy: Path = CHECKPOINT
) -> AsyncIterator[RunningTrainer]:
    add = partial(wire.add_servicer, drafters)
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        async with (
            cache_service(CacheConfig(redis="memory")) as cache,
            serving("127.0.0.1:0", Service(name=wire.SERVICE_NAME, add=add)) as fleet,
        ):
            async with connect(f"127.0.0.1:{cache}") as channel:
                await hidden.Stub(channel).Put(iter([hidden.put_request(frame) for frame in frames]))
            settings = {
                **SETTINGS,
                "model": str(policy),
                "cache": f"127.0.0.1:{cache}",
                "coordinator": f"127.0.0.1:{fleet.port}",
                "drafter_dir": f"{scratch}/drafters",
                "checkpoint_dir": f"{scratch}/checkpoints",
                "device": "cpu",
            }
            async with running(settings, Path(scratch)) as trainer:
                yield trainer


def random_frames(rng: random.Random, policy: Path = CHECKPOINT) -> list[EncodedFrame]:
    """Return random states of a policy, with the window lengths that engines capture."""
    form, frames = read_format(policy), []
    for number in range(WINDOWS):
        made = random_frame(form, rng.randint(SHORTEST_TOKENS, LONGEST_TOKENS), number=number)
        header = replace(made.header, prompt_hash=prompt_hash([number]))
        frames.append(encode(header, made.token_ids.tolist(), [made.hidden.view(torch.uint8).numpy().tobytes()]))
    return frames
