"""Which service may call which."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc
import pytest

from tests.fakes.authority import Authority
from tests.integration.security.conftest import alive
from tlt_cache.config import CacheConfig
from tlt_cache.main import cache_service
from tlt_common.config.base import TlsSettings
from tlt_common.errors import PermissionDeniedError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator, hidden, tuner
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.main import serve as serve_coordinator
from tlt_tuner.config import TunerConfig
from tlt_tuner.main import serve as serve_tuner

Ask = Callable[[grpc.aio.Channel], Awaitable[object]]

PEERS: dict[str, tuple[Ask, set[str]]] = {
    "coordinator": (
        lambda channel: coordinator.Stub(channel).GetDrafter(coordinator.pb.GetDrafterRequest(), timeout=10),
        {"worker", "admin"},
    ),
    "coordinator-fleet": (
        lambda channel: coordinator.Stub(channel).GetFleet(coordinator.pb.GetFleetRequest(), timeout=10),
        {"observe", "admin"},
    ),
    "coordinator-queue": (
        lambda channel: coordinator.Stub(channel).ReportQueue(
            coordinator.pb.ReportQueueRequest(gateway_id="g"), timeout=10
        ),
        {"gateway", "admin"},
    ),
    "coordinator-lending": (
        lambda channel: coordinator.Stub(channel).SetLending(coordinator.pb.SetLendingRequest(), timeout=10),
        {"admin"},
    ),
    "cache": (
        lambda channel: hidden.Stub(channel).GetUsage(hidden.pb.GetUsageRequest(), timeout=10),
        {"worker", "admin"},
    ),
    "tuner": (
        lambda channel: tuner.Stub(channel).ReportWindow(
            tuner.pb.ReportWindowRequest(worker_id="w0", key=tuner.pb.PoolKey(model="m", device="d")), timeout=10
        ),
        {"worker", "admin"},
    ),
}


@asynccontextmanager
async def peer(name: str, tls: TlsSettings) -> AsyncIterator[str]:
    match name:
        case "cache":
            async with cache_service(CacheConfig(redis="memory", tls=tls)) as port:
                yield f"127.0.0.1:{port}"
        case "tuner":
            config = TunerConfig(tls=tls)
            async with alive(lambda tell: serve_tuner(config, on_serving=tell)) as address:
                yield address
        case _:
            settings = CoordinatorConfig(tls=tls, http_listen=None)
            async with alive(lambda tell: serve_coordinator(settings, on_serving=tell)) as served:
                yield served.grpc


@pytest.mark.parametrize("case", PEERS)
async def test_each_service_serves_its_callers_and_no_others(case: str, authority: Authority) -> None:
    ask, allowed = PEERS[case]
    component = case.partition("-")[0]
    let_in = set()
    async with peer(component, authority.issue(component)) as address:
        for role in ("gateway", "worker", "cache", "tuner", "coordinator", "head", "observe", "admin"):
            async with connect(address, to=component, tls=authority.issue(role)) as channel:
                try:
                    with translated():
                        await ask(channel)
                except PermissionDeniedError:
                    continue
                let_in.add(role)
    assert let_in == allowed
