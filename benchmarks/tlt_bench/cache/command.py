"""`tlt bench cache`."""

from tlt_bench.cache import index, path
from tlt_bench.ratios import Figures
from tlt_bench.result import Result

REPEATS = 5
PARTS = ("path", "index")


def measure(parts: tuple[str, ...] = PARTS, *, repeats: int = REPEATS) -> Result:
    """Run the benchmark and return its figures. Progress goes to stderr."""
    found = Figures()
    if "path" in parts:
        found.merge(path.measure(repeats=repeats))
    if "index" in parts:
        found.merge(index.measure())
    return found.result("cache", repeats=repeats)
