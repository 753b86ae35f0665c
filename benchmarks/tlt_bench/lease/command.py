"""`tlt bench lease`."""

from pathlib import Path

from countdown.model import CHECKPOINT
from tlt_bench.engines.prepare import NO_DRAFTER, BenchTarget
from tlt_bench.lease import requests, taking_back
from tlt_bench.ratios import Figures
from tlt_bench.result import Result

LEASES = 200
REPEATS = 60
PARTS = ("leases", "requests")


def measure(
    parts: tuple[str, ...] = PARTS, *, model: Path | None = None, leases: int = LEASES, repeats: int = REPEATS
) -> Result:
    """
    Run the benchmark and return its figures. Progress goes to stderr.

    Raises:
        ConfigError: The model has not been fetched, or is no checkpoint.
    """
    policy = BenchTarget(model=model, drafter=NO_DRAFTER).checkpoint or CHECKPOINT
    found = Figures()
    if "leases" in parts:
        found.merge(taking_back.measure(leases=leases, policy=policy))
    if "requests" in parts:
        found.merge(requests.measure(repeats=repeats, model=model))
    return found.result("lease", repeats=repeats)
