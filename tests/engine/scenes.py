"""What happens in an engine, step by step. Each scene returns plain values for tests to judge."""

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import models  # type: ignore[import-not-found] # beside this script
import torch

from tlt_common.domain.hidden import CapturePolicy, HiddenFrame
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.rollout import Prompt, SamplingParams, Speculation, TokenChunk
from tlt_common.domain.strategy import DEFAULT_ARMS, OFF, ngram, tree
from tlt_common.errors import EngineError, WeightsError
from tlt_worker.engine.launch import EngineOptions
from tlt_worker.engine.sglang import SglangEngine

PROMPT = (3, 7, 5, 9, 4, 12, 8)


@asynccontextmanager
async def engine(options: EngineOptions) -> AsyncIterator[SglangEngine]:
    made = SglangEngine(options)
    try:
        await made.start()
        yield made
    finally:
        await made.aclose()


async def answer(made: SglangEngine, prompt: Prompt) -> TokenChunk:
    whole: TokenChunk | None = None
    async for chunk in made.generate(prompt):
        whole = chunk if whole is None else whole.followed_by(chunk)
    assert whole is not None
    return whole


def prompt(name: str, ids: tuple[int, ...] = PROMPT, **sampling: Any) -> Prompt:
    return Prompt(request_id=RequestId(name), token_ids=ids, sampling=SamplingParams(ignore_eos=True, **sampling))


async def ranks(work: Path) -> dict[str, Any]:
    """Two tensor-parallel ranks: fixed arms, arms of the bandit, and one forced after the other in mid-response."""
    target = models.write_target(work / "target")
    drafter = models.write_drafter(work / "drafter", target, noise=0.05)
    options = EngineOptions(
        model=target, drafter=drafter, dtype="float32", max_running=8, context_length=256, tensor_parallel=2,
        arms=(*DEFAULT_ARMS, tree(3, 4, 8), ngram(4)),
    )  # fmt: skip
    turns = {
        "off": ["off"], "chain-7": ["chain-7"], "tree-3x4-8": ["tree-3x4-8"], "ngram-4": ["ngram-4"], "bandit": [],
        "turns": ["off", "chain-7", "ngram-4", "tree-3x4-8", "chain-3"],
    }  # fmt: skip
    outcome: dict[str, Any] = {}
    async with engine(options) as made:
        outcome["children"] = len(made.child_pids)
        for turn, names in turns.items():
            made.force_arms(*names)
            asked = [prompt(f"{turn}-{n}", (3 + n, 7, 5), max_new_tokens=120, temperature=0.0) for n in range(4)]
            outcome[turn] = await asyncio.gather(*(answer(made, each) for each in asked))
        outcome["sampled"] = await answer(made, prompt("sampled", max_new_tokens=60))
    return outcome


async def switching(work: Path) -> dict[str, Any]:
    """Greedy answers, quiet and under a storm of switches and swaps; capture, log-probabilities, updates, death."""
    target = models.write_target(work / "target", vocabulary=64, hidden=64, layers=4, weight=0.08)
    drafters = [models.write_drafter(work / f"drafter{i}", target, noise=0.02 * (i + 1), seed=i) for i in range(2)]
    options = EngineOptions(model=target, dtype="float32", max_running=8, context_length=512, seed=1)
    outcome: dict[str, Any] = {}
    async with engine(options) as made:
        prompts = [prompt(f"p{i}", tuple(range(3 + i, 12 + i)), temperature=0.0, max_new_tokens=200) for i in range(4)]
        outcome["before_drafter"] = [await answer(made, one) for one in prompts[:1]]
        await made.load_drafter(drafters[0], DrafterVersion(1))
        made.force_arms("off")
        outcome["off"] = [await answer(made, one) for one in prompts]
        made.force_arms("chain-7")
        outcome["chain"] = [await answer(made, one) for one in prompts]
        outcome["storm"] = await _storm(made, prompts, drafters)
        made.force_arms()
        outcome |= await sampled_with_capture(made, target)
        outcome |= await _blocked(made)
        outcome |= await _bad_weights(made, work, target)
        outcome |= await _update_in_flight(made, work, target)
        outcome |= await _die(made)
    return outcome


async def _storm(made: SglangEngine, prompts: list[Prompt], drafters: list[Path]) -> list[TokenChunk]:
    """Switch arms as fast as the loop goes, and swap drafters, while answers are made."""
    answers = [asyncio.create_task(answer(made, one)) for one in prompts]
    version = 2
    for turn, arm in enumerate(itertools.cycle(["off", "chain-3", "chain-7", "off", "chain-7", "chain-3"])):
        if all(task.done() for task in answers):
            break
        made.force_arms(arm)
        if turn % 25 == 10:
            await made.load_drafter(drafters[version % 2], DrafterVersion(version))
            version += 1
        await asyncio.sleep(0.005)
    return [await task for task in answers]


async def sampled_with_capture(made: SglangEngine, target: Path) -> dict[str, Any]:
    """A sampled answer with capture on, beside transformers' view of the same tokens."""
    made.set_capture(CapturePolicy(enabled=True, frame_tokens=64))
    await answer(made, prompt("warm", max_new_tokens=2))
    captured = prompt("captured", tuple(range(20, 50)), temperature=0.7, max_new_tokens=150)
    hidden_from_it = replace(prompt("secret", max_new_tokens=20), capture=False)
    chunk, _ = await asyncio.gather(answer(made, captured), answer(made, hidden_from_it))
    taken = await frames(made)
    ids = [*captured.token_ids, *chunk.token_ids]
    with torch.no_grad():
        model = models.load(target)
        seen = model(torch.tensor([ids]), output_hidden_states=True)
    logprobs = torch.log_softmax(seen.logits[0] / 0.7, -1)[len(captured.token_ids) - 1 : -1]
    return {
        "sampled": chunk,
        "expected_logprobs": logprobs.gather(1, torch.tensor(chunk.token_ids).unsqueeze(1)).squeeze(1).tolist(),
        "frames": [frame for frame in taken if frame.request_id == "captured"],
        "secret_frames": sum(frame.request_id == "secret" for frame in taken),
        "frames_off_by": _off_by(taken, ids, seen.hidden_states[-1][0]),
    }


def _off_by(taken: list[HiddenFrame], ids: list[int], expected: torch.Tensor) -> float:
    """Largest difference of captured states from the expected; infinity if some are missing or misplaced."""
    covered, worst = set(), 0.0
    for frame in (frame for frame in taken if frame.request_id == "captured"):
        end = frame.start + frame.token_count
        if list(frame.token_ids) != ids[frame.start : end + 1]:
            return float("inf")
        states = torch.frombuffer(bytearray(frame.hidden), dtype=torch.float32).view(frame.token_count, -1)
        worst = max(worst, float((states - expected[frame.start : end]).abs().max()))
        covered |= set(range(frame.start, end))
    return worst if covered == set(range(len(ids) - 1)) else float("inf")


async def frames(made: SglangEngine) -> list[HiddenFrame]:
    found, source = [], made.frames()
    while True:
        try:
            async with asyncio.timeout(0.5):
                found.append(await anext(source))
        except TimeoutError:
            return found


async def _blocked(made: SglangEngine) -> dict[str, Any]:
    made.force_arms("chain-7")
    penalised = await answer(made, prompt("penalty", max_new_tokens=40, temperature=0.0, frequency_penalty=0.5))
    declined = replace(prompt("declined", max_new_tokens=40), speculation=Speculation.OFF)
    return {"penalised": penalised, "declined": await answer(made, declined)}


async def _bad_weights(made: SglangEngine, work: Path, target: Path) -> dict[str, Any]:
    """Offer weights of another shape, and a drafter that is not finite."""
    errors = []
    other = models.write_target(work / "other", vocabulary=64, hidden=32, layers=4)
    broken = models.write_drafter(work / "broken", target, noise=float("nan"))
    for offer in (made.load_weights(other, PolicyVersion(9)), made.load_drafter(broken, DrafterVersion(99))):
        try:
            await offer
        except WeightsError as error:
            errors.append(error.message)
    return {"refusals": errors, "after_refusal": await answer(made, prompt("after", max_new_tokens=5))}


async def _update_in_flight(made: SglangEngine, work: Path, target: Path) -> dict[str, Any]:
    """New weights in the middle of an answer; what was said before and after, by each version's own account."""
    newer = models.write_target(work / "newer", vocabulary=64, hidden=64, layers=4, weight=0.08, seed=5)
    running = asyncio.create_task(answer(made, prompt("inflight", temperature=0.0, max_new_tokens=400)))
    await asyncio.sleep(0.4)
    pause_s = await made.load_weights(newer, PolicyVersion(7))
    chunk = await running
    repeated = await answer(made, prompt("fresh", temperature=0.0, max_new_tokens=30))
    ids = torch.tensor([[*PROMPT, *chunk.token_ids]])
    said = {}
    for version, directory in ((0, target), (7, newer)):
        with torch.no_grad():
            logits = models.load(directory)(ids).logits[0]
        said[version] = logits[len(PROMPT) - 1 : -1].argmax(-1).tolist()
    with torch.no_grad():
        model = models.load(newer)
        alone = model.generate(
            torch.tensor([PROMPT]), max_new_tokens=30, min_new_tokens=30, do_sample=False, eos_token_id=None
        )
    return {
        "inflight": chunk,
        "pause_s": pause_s,
        "greedy": said,
        "fresh": repeated,
        "fresh_expected": alone[0, len(PROMPT) :].tolist(),
    }


async def _die(made: SglangEngine) -> dict[str, Any]:
    """Kill the scheduler under a running request."""
    pids = made.child_pids
    running = asyncio.create_task(answer(made, prompt("doomed", max_new_tokens=400)))
    watch = asyncio.create_task(made.died())
    await asyncio.sleep(0.1)
    os.kill(pids[0], signal.SIGKILL)
    async with asyncio.timeout(10):
        why = await watch
        try:
            await running
            failure = ""
        except EngineError as error:
            failure = error.message
    return {"died": why, "failure": failure}


async def qwen2(work: Path) -> dict[str, Any]:
    return await _family(work, "qwen2")


async def qwen3(work: Path) -> dict[str, Any]:
    return await _family(work, "qwen3")


async def _family(work: Path, family: str) -> dict[str, Any]:
    """Greedy answers of another family with a drafter from the start, and what transformers answers."""
    target = models.write_qwen(work / "target", family)
    drafter = models.write_drafter(work / "drafter", target, noise=0.02)
    options = EngineOptions(model=target, drafter=drafter, dtype="float32", max_running=4, context_length=256)
    async with engine(options) as made:
        made.force_arms("chain-3")
        chunk = await answer(made, prompt("greedy", temperature=0.0, max_new_tokens=60))
        again = await made.load_weights(target, PolicyVersion(1))
        pids = made.child_pids
    with torch.no_grad():
        logits = models.load(target)(torch.tensor([[*PROMPT, *chunk.token_ids]])).logits[0]
    return {
        "said": chunk,
        "expected": logits[len(PROMPT) - 1 : -1].argmax(-1).tolist(),
        "reload_s": again,
        "left": [pid for pid in pids if _runs(pid)],
    }


def _runs(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())  # empty for a process that ended and was not waited for
    except OSError:
        return False


def _tell(work: Path, pids: tuple[int, ...]) -> None:
    (work / "pids.new").write_text(" ".join(map(str, pids)))
    (work / "pids.new").rename(work / "pids")


async def orphans(work: Path) -> dict[str, Any]:
    """Start an engine that never drafts, say which processes it has once it answered, and stay until killed."""
    target = models.write_target(work / "target")
    options = EngineOptions(model=target, dtype="float32", max_running=4, context_length=64, arms=(OFF,))
    async with engine(options) as made:
        assert len((await answer(made, prompt("plain", max_new_tokens=8))).token_ids) == 8
        _tell(work, made.child_pids)
        await asyncio.Event().wait()
    return {}
