"""EAGLE drafters of several layers and with the norms of EAGLE 3.1, in an engine."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from tests.engine import eagle3, models
from tests.engine.scenes.agreement import Cache
from tests.engine.scenes.answers import stats
from tests.engine.scenes.eagle3 import GREEDY, KNOWN, Compared, greedy
from tests.engine.scenes.engine import answer, prompt, running
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.response import TokenChunk
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.eagle3 import Eagle3Format
from tlt_common.drafter.reading import standard_format
from tlt_common.drafter.tensors import MAP
from tlt_trainer.drafter.kinds.draft_model import DraftModel
from tlt_trainer.drafter.kinds.untrained import drafter_of
from tlt_worker.checkpoints.drafter import load_drafter
from tlt_worker.checkpoints.drafter_files import read_format
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.engine_config import EngineConfig

ARMS = ("off", "chain-3", "tree-3x4-8", "chain-7")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Answers of an engine whose drafter is of a variant."""

    in_turn: Compared
    seeded: dict[str, TokenChunk]
    """By arm."""
    swapped: Compared
    """With another drafter of the variant."""


class Trained(eagle3.Reference):
    """A drafter as the trainer computes it, in float32."""

    def __post_init__(self) -> None:
        self.model = models.load(self.target)
        self.embedding = self.model.get_input_embeddings().weight.detach()
        drafter, tensors = drafter_of(self.form), load_drafter(self.drafter, self.form).tensors
        assert isinstance(drafter, DraftModel)
        drafter.load_state_dict({name: tensors[name] for name in drafter.state_dict()})
        self.learned, self.map_D = drafter, tensors.get(MAP)

    def states(self, ids: Sequence[int]) -> Tensor:
        return self.captured(ids)

    @torch.no_grad()
    def chain(self, states: Tensor, ids: list[int], steps: int) -> list[int]:
        head, drafts = self.model.get_output_embeddings().weight, list[int]()
        attend, places, tokens = Cache(self.form.layer_count), torch.arange(len(states)), ids[1:]
        hidden = self.learned.begin(states)
        for _ in range(steps):
            embedded = self.learned.embedded(self.embedding[tokens], places)
            hidden = self.learned(embedded, hidden, self.learned.angles(places), attend)[-1:]
            best = int(self.learned.logits(hidden, head).argmax())
            drafts.append(best if self.map_D is None else best + int(self.map_D[best]))
            tokens, places = drafts[-1:], places[-1:] + 1
        return drafts


async def eagle_of_two_layers(work: Path) -> Variant:
    """EAGLE, which drafts with the target's head."""
    target = _write_target(work / "target")
    first, second = (
        models.write_drafter(work / name, target, noise=0.02, seed=seed, depth=2)
        for name, seed in (("first", 3), ("second", 4))
    )
    return await _played(target, first, second)


async def eagle3_with_norms(work: Path) -> Variant:
    """EAGLE 3.1 with two layers and all its norms."""
    target = _write_target(work / "target")
    plain = standard_format(DrafterArchitecture.EAGLE3, read_config(target), draft_vocabulary=len(KNOWN))
    assert isinstance(plain, Eagle3Format)
    form = replace(plain, depth=2, norms_all=True, norms_each=True, norms_output=True)
    first, second = (
        eagle3.write_drafter(work / name, target, form, KNOWN, noise=0.02, seed=seed)
        for name, seed in (("first", 3), ("second", 4))
    )
    assert read_format(first, read_config(target)) == replace(form, max_positions=64)
    return await _played(target, first, second)


def _write_target(directory: Path) -> Path:
    return models.write_target(
        directory, vocabulary=24, hidden=48, layers=8, weight=0.09, family="qwen3", kv_heads=4, seed=0
    )


async def _played(target: Path, first: Path, second: Path) -> Variant:
    config = EngineConfig(drafter=first, dtype="float32", max_running=8, context_length=256, arms=ARMS)
    form, seeded = read_format(first, read_config(target)), dict[str, TokenChunk]()
    async with running(target, config) as engine:

        async def compared(drafter: Path, arms: tuple[int, ...]) -> Compared:
            """Answer one by one with chains of these lengths in turn, 0 for off, as the trainer's drafter would."""
            reference = Trained(drafter, target, form)
            turns, found = [(*arms[place:], *arms[:place]) for place in range(len(arms))], list[TokenChunk]()
            # Prompts of their own: the prefix cache holds what another drafter wrote.
            prompts = [prompt(f"{drafter.name}{i}", tuple(range(3 + i, 10 + 2 * i)), **GREEDY) for i in range(3)]
            if drafter == second:
                prompts = [replace(one, token_ids=tuple(reversed(one.token_ids))) for one in prompts]
            for one in prompts:
                engine.force_arms(*(f"chain-{steps}" if steps else "off" for steps in arms))
                found.append(await answer(engine, one))
            ids = [[*one.token_ids, *each.token_ids] for one, each in zip(prompts, found, strict=True)]
            return Compared(
                answers=found,
                expected=[greedy(target, one) for one in prompts],
                rounds=[stats(each).rounds - 1 for each in found],
                expected_rounds=[
                    [reference.rounds(whole, len(one.token_ids), turn) for turn in turns]
                    for one, whole in zip(prompts, ids, strict=True)
                ],
            )

        in_turn = await compared(first, (3, 0, 7))
        for arm in ARMS:
            engine.force_arms(arm)
            seeded[arm] = await answer(engine, prompt(f"seeded {arm}", seed=7, max_new_tokens=60))
        await engine.load_drafter(second, DrafterVersion(2))
        return Variant(in_turn=in_turn, seeded=seeded, swapped=await compared(second, (3,)))
