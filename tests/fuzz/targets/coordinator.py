"""The coordinator, with its state in a directory."""

from pathlib import Path

from tests.fuzz.host import Announce
from tests.fuzz.service import service_targets
from tlt_common.wire import coordinator as wire
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.main import serve

_HELLO = wire.pb.WorkerHello(worker_id="w", address="127.0.0.1:1", model="model", device="cpu", max_running=4)
_STATUS = wire.pb.WorkerStatus(state=wire.pb.WORKER_STATE_IDLE, arm="chain-3", trainer_ready=True)


async def _serve(announce: Announce, directory: Path) -> None:
    config = CoordinatorConfig(state_dir=directory / "state", http_listen=None)
    await serve(config, on_serving=lambda addresses: announce(addresses.grpc))


TARGETS = service_targets(
    "coordinator",
    wire.pb.DESCRIPTOR.services_by_name["CoordinatorService"],
    _serve,
    control="GetFleet",
    valid={
        "HoldLease": (wire.pb.HoldLeaseRequest(hello=_HELLO), wire.pb.HoldLeaseRequest(status=_STATUS)),
        "ReportQueue": (wire.pb.ReportQueueRequest(gateway_id="gateway", queued_count=1),),
        "PublishDrafter": (
            wire.pb.PublishDrafterRequest(base_version=0, uri="/drafters/1", worker_id="w", held_out_top1=0.5),
        ),
        "SetLending": (wire.pb.SetLendingRequest(enabled=True),),
        "ExcludeWorkers": (wire.pb.ExcludeWorkersRequest(worker_ids=["w"], excluded=True),),
        "GetFleet": (wire.pb.GetFleetRequest(),),
        "WatchFleet": (wire.pb.WatchFleetRequest(),),
    },
    endless=frozenset({"HoldLease", "WatchFleet"}),
)
