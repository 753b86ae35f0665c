"""The cache, with its frames in memory."""

import asyncio
from pathlib import Path

from tests.fuzz.host import Announce
from tests.fuzz.service import service_targets
from tests.fuzz.valid_frame import valid_frame
from tlt_cache.config import CacheConfig
from tlt_cache.main import cache_service
from tlt_common.wire import hidden as wire

BUDGET_BYTES = 2**20


async def _serve(announce: Announce, _directory: Path) -> None:
    async with cache_service(CacheConfig(redis="memory", budget_bytes=BUDGET_BYTES)) as port:
        announce(f"127.0.0.1:{port}")
        await asyncio.Event().wait()


TARGETS = service_targets(
    "cache",
    wire.pb.DESCRIPTOR.services_by_name["HiddenStateService"],
    _serve,
    control="GetUsage",
    valid={
        "Put": (wire.put_request(valid_frame(1)), wire.put_request(valid_frame(40))),
        "Take": (wire.pb.TakeRequest(max_tokens=64, seed=1),),
        "WatchPolicy": (wire.pb.WatchPolicyRequest(),),
        "GetUsage": (wire.pb.GetUsageRequest(),),
    },
    endless=frozenset({"WatchPolicy"}),
)
