"""Invariants of a suite at the end of a campaign, while it is running and after it has ended."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from tlt_bench.campaign.suite import leases, ledger
from tlt_bench.campaign.suite.chronicle import Chronicle
from tlt_bench.campaign.suite.left_behind import Traces
from tlt_bench.campaign.suite.suite import WORKERS, Suite
from tlt_common.rpc.channel import connect

BETWEEN_S = 3.0
"""Seconds between two readings of the ledger."""


async def ledger_gaps(suite: Suite, chronicle: Chronicle) -> int:
    """Return the number of workers whose ledger does not grow with time."""
    async with connect(suite.services["coordinator"], to="coordinator") as channel:
        first = await ledger.read(channel)
        await asyncio.sleep(BETWEEN_S)
        second = await ledger.read(channel)
    found = ledger.gaps(first, second)
    for gap in found:
        chronicle.find(gap)
    return len(found)


def failed_services(suite: Suite, chronicle: Chronicle) -> int:
    """Return how many times a service ended by itself rather than by a strike."""
    found = [ended for ended in suite.ended() if ended.failed]
    for ended in found:
        chronicle.find(str(ended))
    return len(found)


def overlapping_leases(logs: Path, chronicle: Chronicle) -> int:
    """Return the number of lease overlaps in the logs of a run."""
    found = leases.repeated_epochs(leases.events(_text(logs / "coordinator.log")))
    for rank in range(WORKERS):
        found += leases.overlaps(f"worker-{rank}", leases.events(_text(logs / f"worker-{rank}.log")))
    for overlap in found:
        chronicle.find(overlap)
    return len(found)


def loads_of_drafters(logs: Path) -> int:
    """Return the number of drafter loads by engines."""
    texts = [_text(logs / f"worker-{rank}.log") for rank in range(WORKERS)]
    return sum(event.get("event") == "drafter_loaded" for text in texts for event in leases.events(text))


def surplus(before: Mapping[str, int], after: Mapping[str, int], chronicle: Chronicle) -> int:
    """Return the number of processes and files, by kind, in excess of those at the start."""
    found = {kind: count - before.get(kind, 0) for kind, count in after.items() if count > before.get(kind, 0)}
    for kind, count in found.items():
        chronicle.find(f"{count} more than at the start: {kind}")
    return sum(found.values())


def left_behind(traces: Traces, chronicle: Chronicle) -> int:
    """Return the number of leftover processes and files of a run."""
    found = traces.left()
    for one in found:
        chronicle.find(one)
    return len(found)


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
