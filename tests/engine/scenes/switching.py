"""One engine through arm switches, drafter swaps, capture, weight updates and its death."""

import asyncio
import itertools
import json
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from tests.engine import models
from tests.engine.scenes import capture
from tests.engine.scenes.engine import CHAINS, PROMPT, answer, prompt, running
from tlt_bench.gpu_loop import settings
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt, Speculation
from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_common.domain.transcript import Transcript
from tlt_common.errors import DrainingError, EngineError, WeightsError
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment

STORM = ("off", "chain-3", "chain-7", "off", "chain-7", "chain-3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """Rejected weights."""

    messages: list[str]
    answer_after: TokenChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """New weights during an answer."""

    in_flight: TokenChunk
    greedy: dict[int, list[int]]
    """By policy version, the token it would choose at each position of `in_flight`."""
    pause_s: float
    fresh: TokenChunk
    """A request sent afterwards."""
    fresh_expected: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A scheduler killed during a request."""

    reason: str
    failure: str
    """Error of the request."""
    refusal: str
    """DRAINING error of a request that came afterwards: it ended no engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundWaits:
    """Where the suite's code would make the host wait for a GPU in one round."""

    arm: str
    is_switch: bool
    """Whether the round before was of another arm, or of other requests."""
    waits: dict[str, int]
    """By place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchingResult:
    """The engine's results, in this order. Answers are greedy unless stated otherwise."""

    before_drafter: TokenChunk
    off: list[TokenChunk]
    chain: list[TokenChunk]
    storm: list[TokenChunk]
    captured: capture.Captured
    penalized: TokenChunk
    declined: TokenChunk
    """Answer to a request that declined speculation."""
    whole: list[TokenChunk]
    """Answers sampled with seeds."""
    rounds: list[RoundWaits]
    """Rounds up to here; empty in the plain loop."""
    handed_over: list[tuple[tuple[int, ...], FinishReason | None, int]]
    """Tokens of the same ones, aborted again and again and continued; why each ended, and how often it was aborted."""
    refusals: Refusals
    update: Update
    death: Death


async def switching(work: Path) -> SwitchingResult:
    """Greedy answers, first undisturbed, then while arms and drafters change."""
    target = models.write_target(work / "target", vocabulary=64, hidden=64, layers=4, weight=0.08)
    drafters = [models.write_drafter(work / f"drafter{i}", target, noise=0.02 * (i + 1), seed=i) for i in range(2)]
    config = EngineConfig(dtype="float32", max_running=8, context_length=512, arms=CHAINS)
    rounds = work / "rounds.jsonl"
    if settings.LOOP_VARIABLE in os.environ:
        os.environ[settings.ROUNDS_VARIABLE] = str(rounds)
    async with running(target, config, Experiment(seed=1)) as engine:
        prompts = [prompt(f"p{i}", tuple(range(3 + i, 12 + i)), temperature=0.0, max_new_tokens=200) for i in range(4)]
        before_drafter = await answer(engine, prompts[0])
        await engine.load_drafter(drafters[0], DrafterVersion(1))
        engine.force_arms("off")
        off = [await answer(engine, one) for one in prompts]
        engine.force_arms("chain-7")
        chain = [await answer(engine, one) for one in prompts]
        stormed = await storm(engine, prompts, drafters)
        engine.force_arms("off", "chain-7", "chain-3", "chain-7")
        captured = await capture.sampled(engine, target)
        engine.force_arms("chain-7")
        penalty = prompt("penalty", max_new_tokens=40, temperature=0.0, frequency_penalty=0.5)
        declining = replace(prompt("declined", max_new_tokens=40), speculation=Speculation.OFF)
        sampled = [seeded(index) for index in range(12)]
        return SwitchingResult(
            before_drafter=before_drafter,
            off=off,
            chain=chain,
            storm=stormed,
            captured=captured,
            penalized=await answer(engine, penalty),
            declined=await answer(engine, declining),
            whole=[await answer(engine, one) for one in sampled],
            rounds=round_waits(rounds),
            handed_over=list(await asyncio.gather(*(_handed_over(engine, one) for one in sampled))),
            refusals=await _unfit_weights(engine, work, target),
            update=await _update_in_flight(engine, work, target),
            death=await _die(engine),
        )


def round_waits(path: Path) -> list[RoundWaits]:
    """Return how often each round that was logged to a file has waited for the device."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    return [
        RoundWaits(
            arm=line["arm"],
            is_switch=(before["arm"], before["requests"]) != (line["arm"], line["requests"]),
            waits=line["ours"],
        )
        for before, line in itertools.pairwise(lines)
    ]


def seeded(index: int) -> Prompt:
    """Return a request with frequent stop tokens, so that some responses end in a round that aborts them."""
    return prompt(f"seeded-{index}", (3, 7, 5, 9, index), seed=index, stop_token_ids=(11, 12), max_new_tokens=120)


async def _handed_over(engine: SglangEngine, whole: Prompt) -> tuple[tuple[int, ...], FinishReason | None, int]:
    """Abort a request after every other chunk, and continue it from what was received, as a gateway does."""
    transcript, tokens, times = Transcript(whole), list[int](), 0
    while transcript.finish_reason is None:
        name = RequestId(f"{whole.request_id}~{times}")
        count = 0
        async for chunk in engine.generate(replace(transcript.rest(), request_id=name)):
            tokens += chunk.token_ids
            is_end = chunk.finish_reason is FinishReason.ABORT
            transcript.add(replace(chunk, finish_reason=None, stats=None) if is_end else chunk)
            count += 1
            if count == 2:
                await engine.abort(name)
        if transcript.finish_reason is None:
            transcript.hand_over()
            times += 1
    return tuple(tokens), transcript.finish_reason, times


async def storm(
    engine: SglangEngine, prompts: list[Prompt], drafters: list[Path], arms: Sequence[str] = STORM
) -> list[TokenChunk]:
    """Switch arms as fast as the event loop allows, and swap drafters, while requests run."""
    answers = [asyncio.create_task(answer(engine, one)) for one in prompts]
    version = 2
    for turn, arm in enumerate(itertools.cycle(arms)):
        if all(task.done() for task in answers):
            break
        engine.force_arms(arm)
        if turn % 25 == 10:
            await engine.load_drafter(drafters[version % 2], DrafterVersion(version))
            version += 1
        await asyncio.sleep(0.005)
    return [await task for task in answers]


async def _unfit_weights(engine: SglangEngine, work: Path, target: Path) -> Refusals:
    """Load weights of another shape, and a drafter with non-finite values; return the errors."""
    messages = []
    other = models.write_target(work / "other", vocabulary=64, hidden=32, layers=4)
    broken = models.write_drafter(work / "broken", target, noise=float("nan"))
    for offer in (engine.load_weights(other, PolicyVersion(9)), engine.load_drafter(broken, DrafterVersion(99))):
        try:
            await offer
        except WeightsError as error:
            messages.append(error.message)
    return Refusals(messages=messages, answer_after=await answer(engine, prompt("after", max_new_tokens=5)))


async def _update_in_flight(engine: SglangEngine, work: Path, target: Path) -> Update:
    newer = models.write_target(work / "newer", vocabulary=64, hidden=64, layers=4, weight=0.08, seed=5)
    request = asyncio.create_task(answer(engine, prompt("inflight", temperature=0.0, max_new_tokens=400)))
    await asyncio.sleep(0.4)
    pause_s = await engine.load_weights(newer, PolicyVersion(7))
    chunk = await request
    fresh = await answer(engine, prompt("fresh", temperature=0.0, max_new_tokens=30))
    ids = torch.tensor([[*PROMPT, *chunk.token_ids]])
    greedy = {}
    for version, directory in ((0, target), (7, newer)):
        with torch.no_grad():
            logits = models.load(directory)(ids).logits[0]
        greedy[version] = logits[len(PROMPT) - 1 : -1].argmax(-1).tolist()
    with torch.no_grad():
        alone = models.load(newer).generate(
            torch.tensor([PROMPT]), max_new_tokens=30, min_new_tokens=30, do_sample=False, eos_token_id=None
        )
    expected: list[int] = alone[0, len(PROMPT) :].tolist()
    return Update(in_flight=chunk, greedy=greedy, pause_s=pause_s, fresh=fresh, fresh_expected=expected)


async def _die(engine: SglangEngine) -> Death:
    pids = engine.child_pids
    request = asyncio.create_task(answer(engine, prompt("doomed", max_new_tokens=400)))
    watch = asyncio.create_task(engine.died())
    await asyncio.sleep(0.1)
    os.kill(pids[0], signal.SIGKILL)
    async with asyncio.timeout(10):
        reason = await watch
        failure = ""
        try:
            await request
        except EngineError as error:
            failure = error.message
        try:
            await answer(engine, prompt("late"))
        except DrainingError as error:
            return Death(reason=reason, failure=failure, refusal=error.message)
    return Death(reason=reason, failure=failure, refusal="")
