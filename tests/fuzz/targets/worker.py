"""The worker around a simulated engine."""

from pathlib import Path

from tests.fuzz.host import Announce
from tests.fuzz.service import service_targets
from tests.fuzz.valid_requests import PROMPT, TENSORS
from tlt_bench.simulated_engine import SimulatedEngine
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.requests import HangUp, Start
from tlt_common.domain.weights import ReleaseId, StageOrder
from tlt_common.wire import worker as wire
from tlt_worker.config import TrainerSettings, WorkerConfig
from tlt_worker.main import live

ORDER = StageOrder(release=ReleaseId(version=PolicyVersion(1), key="fuzz"))


async def _serve(announce: Announce, directory: Path) -> None:
    config = WorkerConfig(model=directory, run_dir=directory / "run", trainer=TrainerSettings(enabled=False))
    await live(config, SimulatedEngine(), on_serving=announce)


TARGETS = service_targets(
    "worker",
    wire.pb.DESCRIPTOR.services_by_name["WorkerService"],
    _serve,
    control="Abort",
    valid={
        "GenerateMany": (
            wire.request_to_pb(Start(prompt=PROMPT)),
            wire.request_to_pb(HangUp(request_id=PROMPT.request_id)),
        ),
        "Abort": (wire.pb.AbortRequest(request_ids=["r", "s"]),),
        "StageWeights": (wire.stage_to_pb(ORDER), wire.stage_to_pb(TENSORS)),
        "CommitWeights": (wire.pb.CommitWeightsRequest(policy_version=1, release=wire.release_to_pb(ORDER.release)),),
        "FetchWeights": (wire.pb.FetchWeightsRequest(release=wire.release_to_pb(ORDER.release)),),
        "DiscardWeights": (wire.pb.DiscardWeightsRequest(policy_version=1, release=wire.release_to_pb(ORDER.release)),),
        "Watch": (wire.pb.WatchRequest(gateway_id="gateway", demand_count=1, serial=1),),
    },
    endless=frozenset({"Watch"}),
    weight=2,
)
