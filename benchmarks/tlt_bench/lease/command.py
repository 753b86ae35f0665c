"""`tlt bench lease`."""

from tlt_bench.lease import requests, taking_back, throughput
from tlt_bench.ratios import Figures
from tlt_bench.result import Result

LEASES = 200
REPEATS = 60
RATES = 4
PARTS = ("leases", "requests", "throughput")


def measure(parts: tuple[str, ...] = PARTS, *, leases: int = LEASES, repeats: int = REPEATS) -> Result:
    """Run the benchmark and return its figures. Progress goes to stderr."""
    found = Figures()
    if "leases" in parts:
        found.merge(taking_back.measure(leases=leases))
    if "requests" in parts:
        found.merge(requests.measure(repeats=repeats))
    if "throughput" in parts:
        found.merge(throughput.measure(repeats=RATES))
    return Result(name="lease", figures=found.figures, spread=found.spread, repeats=repeats, notes=found.notes)
