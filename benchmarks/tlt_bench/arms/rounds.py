"""`tlt bench rounds`: host waits and launches in a GPU's round, and correctness of captured states."""

import asyncio
import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Self

from tlt_bench.engines.bench_engine import BenchEngine, log, started
from tlt_bench.engines.commands import CheckCapture, Generate, StartEngine
from tlt_bench.engines.prepare import BenchTarget, prepared
from tlt_bench.gpu_loop.counting import STOCK
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
    """Arms to run in turn."""
    counted: str
    """The arm whose rounds count."""
    seed: int | None = None
    batch: int = BATCH


CASES = (
    RoundCase(name="off", turns=("off",), counted="off"),
    RoundCase(name="chain", turns=(CHAIN,), counted=CHAIN),
    RoundCase(name="chain_seeded", turns=(CHAIN,), counted=CHAIN, seed=SEED),
    RoundCase(name="ngram", turns=(RETRIEVED,), counted=RETRIEVED),
    RoundCase(name="switch", turns=(*["off"] * OFF_ROUNDS, CHAIN), counted=CHAIN),
)
SINGLE = (
    RoundCase(name="off", turns=("off",), counted="off", batch=1),
    RoundCase(name=CHAIN, turns=(CHAIN,), counted=CHAIN, batch=1),
    RoundCase(name=f"{CHAIN}_seeded", turns=(CHAIN,), counted=CHAIN, batch=1, seed=SEED),
)
"""Where launches are counted: with one request, when the round takes as long as they do."""


def measure() -> Result:
    """Run the benchmark and return its figures. Progress goes to stderr."""
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        found = asyncio.run(_measure(Path(scratch)))
    found.notes |= {
        "syncs": "reads of a tensor by the suite's scheduler code per decoding round, each of which would make the "
        "host wait for a GPU; the first round of an arm, which switches to it, counts in syncs_switch only",
        "launches": "operators outside CUDA graphs, and graphs, per decoding round of one request beyond those of "
        "SGLang without the suite; operators that a GPU's kernels fuse count one by one",
        "loop": "SGLang's overlapped loop on a CPU, outputs in memory that the next pass of any model overwrites, "
        "lengths unknown to the host, sampling in fixed shapes",
    }
    return found.result("rounds", repeats=1)


async def _measure(scratch: Path) -> Figures:
    ready = await prepared(BenchTarget(device="cpu"), scratch)
    found = Figures()
    start = ready.start(("off", CHAIN, RETRIEVED), context_length=PROMPT_TOKENS + 2 * TOKENS)
    start = start.model_copy(update={"engine": start.engine.model_copy(update={"dtype": "float32"})})
    ours = _Counted.of("ours", start, ready.variables, scratch)
    stock = _Counted.of(STOCK, start.model_copy(update={"stock": True}), ready.variables, scratch)
    async with started(ours.engine, stock.engine):
        for case in CASES:
            _judge(found, case, await ours.rounds(case))
        plain = await stock.rounds(RoundCase(name=STOCK, turns=(), counted=STOCK, batch=1))
        for case in SINGLE:
            _compare(found, case, await ours.rounds(case), plain)
        log("capture")
        await ours.engine.force_arms("off", CHAIN, RETRIEVED, CHAIN)
        prompts = hard_prompts(BATCH, seed=1)
        captured = await ours.engine.check_capture(CheckCapture(prompts=prompts, max_new_tokens=TOKENS))
    found.add("capture_rows", [captured.rows])
    found.add("capture_missing_rows", [captured.missing], "tokens of prompts found in the prefix cache")
    found.add("capture_wrong_rows", [captured.wrong], "rows that are not the target's states of their tokens")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """An engine that writes a line per round."""

    engine: BenchEngine
    path: Path

    @classmethod
    def of(cls, name: str, start: StartEngine, environment: Mapping[str, str], scratch: Path) -> Self:
        path = scratch / f"{name}.jsonl"
        return cls(engine=BenchEngine(name, start, {**environment, **variables(path)}), path=path)

    async def rounds(self, case: RoundCase) -> list[Mapping[str, Any]]:
        """Run a case and return the lines of the rounds that count."""
        log(case.name)
        self.path.unlink(missing_ok=True)
        if case.turns:
            await self.engine.force_arms(*case.turns)
        request = Generate(
            prompts=hard_prompts(case.batch, seed=0),
            max_new_tokens=(TOKENS,) * case.batch,
            temperature=1.0,
            seed=case.seed,
        )
        await self.engine.generate(request)
        return _counted([json.loads(line) for line in self.path.read_text().splitlines()], case)


def _counted(lines: Sequence[Mapping[str, Any]], case: RoundCase) -> list[Mapping[str, Any]]:
    """Return the rounds that count: in steady cases, those after a round of the same arm and requests."""
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


def _compare(
    found: Figures, case: RoundCase, lines: Sequence[Mapping[str, Any]], plain: Sequence[Mapping[str, Any]]
) -> None:
    """Add the launches of a case's rounds beyond those of plain rounds, by location."""
    ours, base = _launches(lines), _launches(plain)
    more = [sum(line["launches"].values()) - base.total() for line in lines]
    difference = Counter({place: ours[place] - base[place] for place in {*ours, *base}})
    shown = ", ".join(f"{_short(place)} {count:+.2f}" for place, count in difference.most_common() if abs(count) > 0.01)
    name = f"launches_{case.name}_bs1"
    found.add(name, more, f"{base.total():.1f} without the suite; {shown}")
    found.figures[name] = fmean(more)


def _launches(lines: Sequence[Mapping[str, Any]]) -> "Counter[str]":
    """Return the mean launches of rounds, by location."""
    places = sum((Counter(line["launches"]) for line in lines), Counter[str]())
    return Counter({place: count / len(lines) for place, count in places.items()})


def _short(place: str) -> str:
    return place.rpartition("/")[2]
