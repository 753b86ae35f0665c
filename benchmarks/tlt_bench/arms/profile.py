"""What the stages of a round cost the scheduler's thread, by arm and batch size."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from tlt_bench.engines.bench_engine import BenchEngine, log
from tlt_bench.engines.commands import Generate
from tlt_bench.ratios import Figures

ARMS: Final = ("off", "ngram-7", "chain-7")
BATCHES: Final = (1, 16)
SEED: Final = 7
WHOLE: Final = "round"
LEAST_MS: Final = 0.02
"""Stages below this are left out of the note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilePlan:
    """Amount of measurement: tokens of a response."""

    tokens: int


FULL = ProfilePlan(tokens=384)
QUICK = ProfilePlan(tokens=96)


async def measure_profile(engine: BenchEngine, lines: Path, plan: ProfilePlan) -> Figures:
    """Profile the arms, chain-7 also with seeds. `lines` is the file that the engine's rounds are written to."""
    found = Figures()
    for batch in BATCHES:
        for arm, seed in (*((arm, None) for arm in ARMS), (ARMS[-1], SEED)):
            name = f"{arm}{'_seeded' if seed else ''}_bs{batch}"
            log(f"profile of {name}")
            await engine.force_arms(arm)
            request = Generate(
                prompts=engine.task.hard(batch, seed=1),
                max_new_tokens=(plan.tokens,) * batch,
                seed=seed,
            )
            await engine.generate(request.model_copy(update={"max_new_tokens": (16,) * batch}))
            _taken(lines)
            await engine.generate(request)
            _judge(found, name, _whole(_taken(lines), arm, batch))
    return found


def _taken(lines: Path) -> list[Mapping[str, Any]]:
    """Return the rounds written so far, and forget them."""
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    lines.unlink()
    return found


def _whole(rounds: Sequence[Mapping[str, Any]], arm: str, batch: int) -> list[Mapping[str, Any]]:
    """Return the rounds of an arm with all requests, but for the first two, which follow prompts."""
    return [each for each in rounds if each["arm"] == arm and len(each["requests"]) == batch][2:]


def _judge(found: Figures, name: str, rounds: Sequence[Mapping[str, Any]]) -> None:
    """Add the milliseconds of a round and, for each stage right below the launch, of all that is in it."""
    stages = [_milliseconds(each["stages"]) for each in rounds]
    paths = sorted({path for each in stages for path in each})
    own = {path: median(each.get(path, 0.0) for each in stages) for path in paths}
    shown = ", ".join(f"{path or 'between'} {ms:.2f}" for path, ms in own.items() if ms >= LEAST_MS)
    totals = [sum(each.values()) for each in stages]
    found.add(f"profile_{WHOLE}_{name}_ms", totals, f"{len(rounds)} rounds; own milliseconds of stages: {shown}")
    for stage in ("draft", "verify", "extend"):
        inside = [_within(each, f"launch/{stage}") for each in stages]
        if any(inside):
            found.add(f"profile_{stage}_{name}_ms", inside)


def _milliseconds(stages: Mapping[str, tuple[int, float]]) -> dict[str, float]:
    return {path: 1000 * own_s for path, (_, own_s) in stages.items()}


def _within(stages: Mapping[str, float], stage: str) -> float:
    return sum(ms for path, ms in stages.items() if path == stage or path.startswith(f"{stage}/"))
