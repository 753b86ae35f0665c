"""Checks that the coordinator accounts for every device-second of every worker."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import grpc

from tlt_common.domain.fleet import Fleet, WorkerAccount
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire

ROUNDING_S = 0.01
CALL_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The ledger at an unknown moment within an interval of this process's clock."""

    before_s: float
    after_s: float
    sums_s: Mapping[str, float]
    """Total seconds over all states, by worker id."""


def reading(fleet: Fleet, *, before_s: float, after_s: float) -> Reading:
    """Return the sums of a fleet's accounts."""
    sums_s = {str(account.hello.worker_id): _sum_s(account) for account in fleet.workers}
    return Reading(before_s=before_s, after_s=after_s, sums_s=sums_s)


def gaps(first: Reading, second: Reading) -> list[str]:
    """
    Return a sentence for each worker whose seconds did not grow by the time between two readings. Pure.

    Each reading was taken at an unknown moment of its interval, so that the bounds allow for a slow machine.
    """
    found = []
    low_s, high_s = second.before_s - first.after_s, second.after_s - first.before_s
    for worker_id, before_s in first.sums_s.items():
        grown_s = second.sums_s.get(worker_id, 0.0) - before_s
        if not low_s - ROUNDING_S <= grown_s <= high_s + ROUNDING_S:
            found.append(f"{worker_id}: ledger grew by {grown_s:.2f} s in {low_s:.2f} to {high_s:.2f} s")
    return found


async def read(channel: grpc.aio.Channel) -> Reading:
    """
    Read the ledger.

    Raises:
        UnavailableError: The coordinator is unreachable.
    """
    before_s = time.monotonic()
    with translated():
        response = await wire.Stub(channel).GetFleet(wire.pb.GetFleetRequest(max_changes=0), timeout=CALL_S)
    return reading(wire.fleet_from_pb(response), before_s=before_s, after_s=time.monotonic())


def _sum_s(account: WorkerAccount) -> float:
    return sum(account.seconds.values())
