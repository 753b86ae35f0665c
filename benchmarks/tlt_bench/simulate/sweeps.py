"""Speedups of a published run under other values of the keys whose defaults were chosen by simulation."""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from tlt_bench.engines.bench_engine import log
from tlt_bench.result import Result
from tlt_common.errors import ConfigError
from tlt_simulator.cases import case
from tlt_simulator.scenario import Scenario
from tlt_simulator.sweep.outcomes import SweepOutcome, Variant, cores, outcomes
from tlt_simulator.sweep.sweep import grid, scenarios

CASE = "paper"
STEPS, SEEDS, QUICK_SEEDS = 4, 3, 1
BY_TOKENS = {
    128: '{"4":32,"6":21,"8":16,"16":8,"32":4,"64":2}',
    512: '{"4":128,"6":85,"8":64,"16":32,"32":16,"64":8}',
}
"""Limits of the default arms, by the tokens that a round may verify; the default is 256."""
OVER = (
    "spot.max_trainers=1,2,8",
    "engine.speculate_below_requests=16,32,128",
    f"engine.group_below_requests={','.join(BY_TOKENS.values())}",
    "engine.arms=[off,chain-3,chain-7],[off,tree-4x4-16,tree-8x8-64]",
    "cache.budget_bytes=16777216,67108864,4294967296",
    "publish.every_tokens=8192,131072,524288",
    "publish.gain=0.005,0.1",
)
"""Values to compare with the defaults."""


def measure(row: str, *, quick: bool) -> Result:
    """
    Simulate a row of the case with each value, all else being as by default.

    Args:
        row: Label of the case's row.
        quick: Simulate one seed only.

    Raises:
        ConfigError: There is no such row.
    """
    rows = {one.label: one for one in case(CASE).rows}
    if (found := rows.get(row)) is None:
        raise ConfigError(f"--row is {row!r}; accepted: {'; '.join(rows)}", field="row")
    base = found.prepared().model_copy(update={"drafter_tokens": 0.0, "public_drafter": False})
    seeds = range(base.seed, base.seed + (QUICK_SEEDS if quick else SEEDS))
    named = dict(_scenarios(base))
    variants = [
        Variant(name=f"{name} {seed}", scenario=scenario.model_copy(update={"seed": seed}))
        for name, scenario in named.items()
        for seed in seeds
    ]
    known = dict[str, SweepOutcome]()
    for variant, outcome in outcomes(variants, found.trace(STEPS).steps, processes=cores()):
        known[variant.name] = outcome
        log(f"{variant.name}: {outcome.speedup:.3f} ({len(known)} of {len(variants)})")
    speedups = {name: [known[f"{name} {seed}"].speedup for seed in seeds] for name in named}
    return Result(
        name="sweeps",
        figures={name: fmean(values) for name, values in speedups.items()},
        spread={name: (min(values), max(values)) for name, values in speedups.items()},
        repeats=len(seeds),
        notes={"case": f"{CASE}, {row}, {STEPS} steps, drafter none"},
    )


def _scenarios(base: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Yield the default and each changed scenario, by the name of its figure."""
    yield "default", base
    for key, values in grid(OVER).items():
        changes: Sequence[Mapping[str, str]] = [{key: value} for value in values]
        for value, scenario in zip(values, scenarios(base, changes), strict=True):
            shown = next((f"{tokens}_tokens" for tokens, limits in BY_TOKENS.items() if limits == value), value)
            yield re.sub(r"\W+", "_", f"{key}_{shown}"), scenario
