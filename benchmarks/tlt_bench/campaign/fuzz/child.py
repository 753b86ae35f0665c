"""Process of one target: `python -m tlt_bench.campaign.fuzz.child TARGET COUNT SEED SECONDS`; prints JSON."""

import json
import sys
import time
from dataclasses import asdict

from tlt_bench.campaign.fuzz.all_targets import named
from tlt_bench.campaign.fuzz.search import search


def main(name: str, count: str, first_seed: str, seconds: str) -> None:
    """Search one target and print the result."""
    deadline_s = time.monotonic() + float(seconds)
    found = search(named(name), int(count), first_seed=int(first_seed), may_go_on=lambda: time.monotonic() < deadline_s)
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main(*sys.argv[1:])
