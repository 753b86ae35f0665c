"""Mixtures of experts: updates in both spellings, and the experts that tokens were routed to."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from tests.engine import models
from tests.engine.scenes.engine import CHAINS, PROMPT, answer, prompt, running
from tests.families import model_of
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig


def write_mixture(directory: Path, family: str, *, seed: int) -> Any:
    """Write a mixture of experts with random weights, as trainers save it; return the model."""
    torch.manual_seed(seed)
    model = model_of(family, max_position_embeddings=512).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.normal_(std=0.2)
        # The last token is likely to be repeated: so drafts a drafter that passes its embedding through.
        model.lm_head.weight.copy_(model.model.embed_tokens.weight)
    model.save_pretrained(directory)
    return model


@dataclass(frozen=True, slots=True, kw_only=True)
class SpellingsResult:
    """Greedy answers after updates with the same weights."""

    stacked: TokenChunk
    apart: TokenChunk
    expected: list[int]
    """Transformers' choice at each position."""


async def spellings(work: Path) -> SpellingsResult:
    """Send weights stacked, the first ones again, and the same weights apart."""
    family = "qwen3_moe"
    start, apart, stacked = work / "start", work / "apart", work / "stacked"
    write_mixture(start, family, seed=1)
    trained = write_mixture(apart, family, seed=2)
    stacked.mkdir()
    save_file(trained.state_dict(), stacked / "model.safetensors")
    config = EngineConfig(dtype="float32", max_running=4, context_length=256, arms=CHAINS)
    answers = []
    async with running(start, config) as engine:
        for version, directory in enumerate((stacked, start, apart), 1):
            await engine.load_weights(directory, PolicyVersion(version))
            answers.append(await answer(engine, prompt(f"{version}", temperature=0.0, max_new_tokens=40)))
    whole = torch.tensor([[*PROMPT, *answers[0].token_ids]])
    with torch.no_grad():
        logits = models.load(apart)(whole).logits[0]
    return SpellingsResult(
        stacked=answers[0], apart=answers[2], expected=logits[len(PROMPT) - 1 : -1].argmax(-1).tolist()
    )


ARMS = ("off", "chain-3", "chain-3-top1", "tree-2x2-4", "tree-3x3-8", "ngram-5")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedAnswer:
    """Which experts a response's tokens were routed to, by the engine and by transformers: [tokens, layers, top_k]."""

    tokens: tuple[int, ...]
    """Prompt and response."""
    first: int
    returned: NDArray[np.int32]
    expected: NDArray[np.int32]
    accepted: int
    cached: int


def routed_by(model: Any, tokens: tuple[int, ...]) -> NDArray[np.int32]:
    """Return transformers' choice of experts for all tokens but the last."""
    rows = np.zeros((len(tokens) - 1, model.config.num_hidden_layers, model.config.num_experts_per_tok), np.int32)

    def record(layer: int, chosen: Any) -> None:
        rows[:, layer] = chosen.numpy()

    hooks = [
        layer.mlp.experts.register_forward_pre_hook(lambda _, given, at=at: record(at, given[1]))
        for at, layer in enumerate(model.model.layers)
        if hasattr(layer.mlp, "experts")
    ]
    with torch.no_grad():
        model(torch.tensor([tokens[:-1]]))
    for hook in hooks:
        hook.remove()
    return rows


def ordered(rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the experts of each row in ascending order: which comes first is a matter of rounding."""
    return np.sort(rows, axis=-1)


def asking(name: str, ids: tuple[int, ...] = PROMPT, *, start: int = 0, **sampling: Any) -> Prompt:
    """Return a request for routed experts."""
    return replace(prompt(name, ids, **sampling), routed_experts_start=start)


async def routed(engine: SglangEngine, model: Any, request: Prompt) -> RoutedAnswer:
    """Answer a request, and recompute it."""
    return checked(model, request, await answer(engine, request))


def checked(model: Any, request: Prompt, whole: TokenChunk) -> RoutedAnswer:
    """Recompute an answer."""
    assert whole.routed_experts is not None
    assert whole.stats is not None
    tokens, first = (*request.token_ids, *request.prefix_token_ids, *whole.token_ids), whole.routed_experts.first
    return RoutedAnswer(
        tokens=tokens,
        first=first,
        returned=ordered(whole.routed_experts.array()),
        expected=ordered(routed_by(model, tokens)[first:]),
        accepted=whole.stats.accepted_draft_tokens,
        cached=whole.stats.cached_tokens,
    )


def written(work: Path) -> tuple[Path, Any, Path]:
    """Write a mixture, and a drafter that is right now and then."""
    target = work / "target"
    model = write_mixture(target, "qwen3_moe", seed=1)
    return target, model, models.write_drafter(work / "drafter", target, noise=0.02)


async def routed_glm(work: Path) -> list[RoutedAnswer]:
    """GLM's first layer is dense, and its router has groups and a correction."""
    return await _routed_family(work, "glm4_moe")


async def routed_gpt_oss(work: Path) -> list[RoutedAnswer]:
    """gpt-oss routes by a router with biases."""
    return await _routed_family(work, "gpt_oss")


async def _routed_family(work: Path, family: str) -> list[RoutedAnswer]:
    model = write_mixture(work / "target", family, seed=1)
    drafter = models.write_drafter(work / "drafter", work / "target", noise=0.02)
    config = EngineConfig(
        drafter=drafter,
        dtype="float32",
        max_running=4,
        context_length=64,
        arms=("off", "chain-3"),
        return_routed_experts=True,
    )
    found: list[RoutedAnswer] = []
    async with running(work / "target", config) as engine:
        for arm in ("off", "chain-3"):
            engine.force_arms(arm)
            found += [await routed(engine, model, asking(arm, (*PROMPT, len(found)), max_new_tokens=30))]
    return found


async def routed_by_arm(work: Path) -> dict[str, list[RoutedAnswer]]:
    """Answer several requests at a time under each arm, some greedy and some sampled."""
    target, model, drafter = written(work)
    config = EngineConfig(
        drafter=drafter, dtype="float32", max_running=4, context_length=256, arms=ARMS, return_routed_experts=True
    )
    found = {}
    async with running(target, config) as engine:
        for arm in ARMS:
            engine.force_arms(arm)
            requests = [
                asking(f"{arm} {index}", (*PROMPT, index), temperature=index % 2, max_new_tokens=20 + 9 * index)
                for index in range(4)
            ]
            found[arm] = await asyncio.gather(*(routed(engine, model, request) for request in requests))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedWaysResult:
    """Answers whose tokens were not all computed by one pass after another."""

    cached: RoutedAnswer
    """A turn upon an earlier one."""
    resumed: RoutedAnswer
    """The rest of a response of which another attempt made the beginning."""
    response_only: RoutedAnswer
    updated: list[RoutedAnswer]
    """With new weights in mid-flight, recomputed under these."""
    one: RoutedAnswer
    """Of one token."""
    unasked: TokenChunk


async def routed_ways(work: Path) -> RoutedWaysResult:
    """Answer from cached prefixes, after an interruption, and through an update of the weights."""
    target, model, drafter = written(work)
    trained = write_mixture(work / "trained", "qwen3_moe", seed=2)
    config = EngineConfig(
        drafter=drafter, dtype="float32", max_running=4, context_length=512, arms=ARMS, return_routed_experts=True
    )
    async with running(target, config) as engine:
        engine.force_arms("tree-3x3-8")
        turn = await answer(engine, prompt("turn", max_new_tokens=30))
        cached = await routed(engine, model, asking("next", (*PROMPT, *turn.token_ids, 5, 6), max_new_tokens=12))
        begun = replace(asking("rest", (9, *PROMPT), max_new_tokens=30), prefix_token_ids=turn.token_ids[:11])
        resumed = await routed(engine, model, begun)
        response_only = await routed(engine, model, asking("response", start=len(PROMPT), max_new_tokens=9))
        one = await routed(engine, model, asking("one", max_new_tokens=1))
        unasked = await answer(engine, prompt("unasked", max_new_tokens=3))
        updated = await _updated(engine, work / "trained", trained)
    return RoutedWaysResult(
        cached=cached, resumed=resumed, response_only=response_only, updated=updated, one=one, unasked=unasked
    )


async def _updated(engine: SglangEngine, directory: Path, model: Any) -> list[RoutedAnswer]:
    begun = asyncio.Event()

    async def streamed(request: Prompt) -> RoutedAnswer:
        whole: TokenChunk | None = None
        async for chunk in engine.generate(request):
            whole = chunk if whole is None else whole.followed_by(chunk)
            if len(whole.token_ids) > 10:
                begun.set()
        assert whole is not None
        assert set(whole.policy_versions) == {0, 1}, "the update came in mid-flight"
        return checked(model, request, whole)

    async with asyncio.TaskGroup() as tasks:
        answers = [tasks.create_task(streamed(asking(f"long {at}", (at, 9, 4), max_new_tokens=300))) for at in range(3)]
        await begun.wait()
        await engine.load_weights(directory, PolicyVersion(1))
    return [task.result() for task in answers]
