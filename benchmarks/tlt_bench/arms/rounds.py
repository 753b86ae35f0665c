"""`tlt bench rounds`: what a GPU's host would wait for in a round, and whether captured states are the round's own."""

import asyncio
import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tlt_bench.engines.bench_engine import BenchEngine, log, started
from tlt_bench.engines.commands import CheckCapture, Generate
from tlt_bench.engines.prepare import BenchTarget, prepared
from tlt_bench.gpu_loop.settings import variables
from tlt_bench.ratios import Figures
from tlt_bench.result import Result
from tlt_bench.workload import PROMPT_TOKENS, hard_prompts

CHAIN, RETRIEVED = "chain-7", "ngram-5"
BATCH = 4
TOKENS = 120
OFF_ROUNDS = 6
"""Rounds of off before each round of a drafting arm, where switches are counted."""
SEED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCase:
    """Responses to generate, and the rounds of them to count."""

    name: str
    turns: tuple[str, ...]
    """Arms in turn."""
    counted: str
    """Arm whose rounds count."""
    seed: int | None = None


CASES = (
    RoundCase(name="off", turns=("off",), counted="off"),
    RoundCase(name="chain", turns=(CHAIN,), counted=CHAIN),
    RoundCase(name="chain_seeded", turns=(CHAIN,), counted=CHAIN, seed=SEED),
    RoundCase(name="ngram", turns=(RETRIEVED,), counted=RETRIEVED),
    RoundCase(name="switch", turns=(*["off"] * OFF_ROUNDS, CHAIN), counted=CHAIN),
)


def measure() -> Result:
    """Run the benchmark and return its figures. Progress goes to stderr."""
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        found = asyncio.run(_measure(Path(scratch)))
    return Result(
        name="rounds",
        figures=found.figures,
        spread=found.spread,
        repeats=1,
        notes={
            "syncs": "reads of a tensor by the suite's scheduler code per decoding round, each of which would make the "
            "host wait for a GPU; the first round of an arm, which switches to it, counts in syncs_switch only",
            "loop": "SGLang's overlapped loop on a CPU, outputs in reused buffers, sampling in fixed shapes",
            **found.notes,
        },
    )


async def _measure(scratch: Path) -> Figures:
    ready = await prepared(BenchTarget(device="cpu"), scratch)
    rounds, found = scratch / "rounds.jsonl", Figures()
    start = ready.start(("off", CHAIN, RETRIEVED), context_length=PROMPT_TOKENS + 2 * TOKENS)
    start = start.model_copy(update={"engine": start.engine.model_copy(update={"dtype": "float32"})})
    engine = BenchEngine("ours", start, {**ready.variables, **variables(rounds)})
    async with started(engine):
        for case in CASES:
            log(case.name)
            rounds.unlink(missing_ok=True)
            await engine.force_arms(*case.turns)
            request = Generate(
                prompts=hard_prompts(BATCH, seed=0), max_new_tokens=(TOKENS,) * BATCH, temperature=1.0, seed=case.seed
            )
            await engine.generate(request)
            lines = [json.loads(line) for line in rounds.read_text().splitlines()]
            _judge(found, case, _counted(lines, case))
        log("capture")
        await engine.force_arms("off", CHAIN, RETRIEVED, CHAIN)
        prompts = hard_prompts(BATCH, seed=1)
        captured = await engine.check_capture(CheckCapture(prompts=prompts, max_new_tokens=TOKENS))
    found.add("capture_rows", [captured.rows])
    found.add("capture_missing_rows", [captured.missing], "tokens of prompts found in the prefix cache")
    found.add("capture_wrong_rows", [captured.wrong], "rows that are not the target's states of their tokens")
    return found


def _counted(lines: Sequence[Mapping[str, Any]], case: RoundCase) -> list[Mapping[str, Any]]:
    """Return the rounds that count: in steady cases, those behind a round of the same arm and requests."""
    if len(case.turns) > 1:
        return [line for line in lines if line["arm"] == case.counted]
    pairs = itertools.pairwise(lines)
    return [
        line
        for before, line in pairs
        if line["arm"] == before["arm"] == case.counted and line["requests"] == before["requests"]
    ]


def _judge(found: Figures, case: RoundCase, lines: Sequence[Mapping[str, Any]]) -> None:
    places = sum((Counter(line["ours"]) for line in lines), Counter[str]())
    shown = ", ".join(f"{Path(place).name} {count / len(lines):.2f}" for place, count in places.most_common())
    note = f"{len(lines)} rounds; {shown or 'nowhere'}"
    values = [sum(line["ours"].values()) for line in lines]
    found.add(f"syncs_{case.name}", values, note)
    found.figures[f"syncs_{case.name}"] = fmean(values)  # the median would hide rare ones
