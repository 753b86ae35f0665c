"""
Cost of a round of each arm, in rounds of off, by batch size: the grids of the TLT paper's Tables 1 and 2.

A round's cost hardly depends on how many of its drafts are accepted, so it can be measured with random weights. The
speed of an arm is its accept length divided by its cost, which is therefore also the accept length at which the arm
breaks even.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from tlt_bench.engines.bench_engine import BenchEngine, alternated, log
from tlt_bench.engines.commands import Generate, Timing
from tlt_bench.ratios import Figures, over
from tlt_common.errors import ConfigError

CHAINS: Final = ("chain-3", "chain-5", "chain-7")
TREES: Final = tuple(f"tree-{steps}x8-{verified}" for steps in (4, 6, 8) for verified in (16, 32, 64))
"""Depths and tokens to verify, eight branches wide."""
ACCEPT: Final = re.compile(r"accept_(.+)_bs1")


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPlan:
    """Amount of measurement: tokens of a response, and repeats by batch size."""

    tokens: int
    repeats: dict[int, int]


FULL = GridPlan(tokens=64, repeats={1: 3, 2: 2, 4: 2, 8: 2, 16: 2, 32: 1})
QUICK = GridPlan(tokens=32, repeats={1: 1, 4: 1})


def accept_lengths_in(path: Path) -> dict[str, float]:
    """
    Return the accept lengths by arm, at batch 1, in a result of this benchmark.

    Raises:
        ConfigError: The file is not such a result.
    """
    try:
        figures = json.loads(path.read_text())["figures"]
        found = {match[1]: float(value) for name, value in figures.items() if (match := ACCEPT.fullmatch(name))}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"--accept-lengths: {path} is not a result: {error}", field="accept_lengths") from error
    if not found:
        raise ConfigError(f"--accept-lengths: {path} has no accept lengths; run --part grid", field="accept_lengths")
    return found


async def measure_grid(
    engine: BenchEngine, arms: Sequence[str], accept_lengths: Mapping[str, float], *, quick: bool
) -> Figures:
    """
    Measure all arms in turn at each batch size.

    Args:
        engine: A running engine with these arms.
        arms: Arms; `off` among them.
        accept_lengths: Tokens per round by arm, from a trained drafter; missing arms have costs only.
        quick: Whether to run fewer repeats.
    """
    plan = QUICK if quick else FULL
    found = Figures()
    for batch, repeats in plan.repeats.items():
        log(f"grid at batch {batch}")
        timings = await alternated(arms, repeats, partial(_timed, engine, batch, plan.tokens))
        rounds = {arm: [each.round_s for each in mine] for arm, mine in timings.items()}
        for arm in (each for each in arms if each != "off"):
            cost = found.add(f"cost_{arm}_bs{batch}", over(rounds[arm], rounds["off"]))
            found.add(f"accept_{arm}_bs{batch}", [each.accept_length for each in timings[arm]])
            if arm in accept_lengths:
                found.add(f"speed_{arm}_bs{batch}", [accept_lengths[arm] / cost])
        found.notes[f"off_round_ms_bs{batch}"] = f"{1000 * median(rounds['off']):.2f}"
    return found


async def _timed(engine: BenchEngine, batch: int, tokens: int, arm: str, repeat: int, _: int) -> Timing:
    await engine.force_arms(arm)
    prompts = engine.task.hard(batch, seed=repeat)
    return await engine.generate(Generate(prompts=prompts, max_new_tokens=(tokens,) * batch))
