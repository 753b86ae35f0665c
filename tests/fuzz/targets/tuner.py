"""The tuner, with its pools in memory."""

from pathlib import Path

from tests.fuzz.host import Announce
from tests.fuzz.service import service_targets
from tlt_common.wire import tuner as wire
from tlt_tuner.config import TunerConfig
from tlt_tuner.main import serve

_KEY = wire.pb.PoolKey(model="model", device="cpu", drafter_version=1)
_WINDOW = wire.pb.ArmWindow(
    arm="chain-3",
    group=1,
    round_count=2,
    accepted_tokens=3,
    produced_tokens=5,
    elapsed_s=0.1,
    median_reward=50,
    drafted_tokens=6,
)


async def _serve(announce: Announce, _directory: Path) -> None:
    await serve(TunerConfig(), on_serving=announce)


TARGETS = service_targets(
    "tuner",
    wire.pb.DESCRIPTOR.services_by_name["TunerService"],
    _serve,
    control="ReportWindow",
    valid={
        "ReportWindow": (wire.pb.ReportWindowRequest(worker_id="w", key=_KEY, arms=[_WINDOW]),),
        "WatchPosterior": (wire.pb.WatchPosteriorRequest(key=_KEY),),
    },
    endless=frozenset({"WatchPosterior"}),
)
