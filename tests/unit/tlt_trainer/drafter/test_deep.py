"""Drafters of several layers and with the norms of EAGLE 3.1 train as they draft."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, for_eagle3, frames_of, tiny_policy, wild
from tlt_common.drafter.eagle import EagleFormat
from tlt_common.drafter.eagle3 import Eagle3Format
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.meta import DrafterMeta
from tlt_common.drafter.reading import format_of
from tlt_trainer.data.pack import collate
from tlt_trainer.drafter.attention.packed import PackedAttention
from tlt_trainer.drafter.files import config_of, from_files, to_files
from tlt_trainer.drafter.shared_weights import read_config
from tlt_trainer.learner import Learner

META = DrafterMeta(version=1, base=0, worker_id="w", steps=0, tokens=0, held_out_top1=0)
VARIANTS: tuple[dict[str, Any], ...] = (
    {"depth": 3}, {"norms_all": True}, {"norms_each": True}, {"norms_output": True},
    {"depth": 2, "norms_all": True, "norms_each": True, "norms_output": True},
)  # fmt: skip


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> TinyPolicy:
    return tiny_policy(tmp_path_factory.mktemp("policy"), layers=4)


def forms(policy: TinyPolicy) -> list[DrafterFormat]:
    eagle, eagle3 = policy.form, for_eagle3(policy).form
    assert isinstance(eagle, EagleFormat)
    assert isinstance(eagle3, Eagle3Format)
    return [replace(eagle, depth=2), *(replace(eagle3, **changes) for changes in VARIANTS)]


@pytest.mark.parametrize("number", range(1 + len(VARIANTS)))
def test_a_pass_is_what_the_next_draft_computes(policy: TinyPolicy, number: int) -> None:
    form = forms(policy)[number]
    drafter = wild(form).eval()
    frame = frames_of(replace(policy, form=form), 1, tokens=10)[0]
    pack = collate([frame], CPU)
    embedded = functional.embedding(pack.next_ids, policy.shared.embedding).float()
    captured = pack.hidden.float()
    turn, attend, made = drafter.angles(pack.positions), PackedAttention(pack.layout, form.layer_count), list[Tensor]()
    with torch.no_grad():
        states = drafter.begin(captured)
        for _ in range(3):
            made.append(drafter(embedded, states, turn, attend))
            states = pack.layout.later_by(made[-1], 1)
        for last in range(4, 10):
            cache, states = _Cache(form.layer_count), drafter.begin(captured[: last - 1])
            states = drafter(embedded[: last - 1], states, drafter.angles(pack.positions[: last - 1]), cache)[-1:]
            for later in range(2):
                place = slice(last - 1 + later, last + later)
                if place.stop > 10:
                    break
                turned = drafter.angles(pack.positions[place])
                states = drafter(embedded[place], states, turned, cache)
                torch.testing.assert_close(made[later + 1][place], states, rtol=1e-4, atol=1e-4)


class _Cache:
    """Causal attention, one token at a time, of each layer in turn."""

    def __init__(self, layers: int) -> None:
        self._kept: list[tuple[Tensor, Tensor] | None] = [None] * layers
        self._calls = 0

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        layer = self._calls % len(self._kept)
        self._calls += 1
        if (kept := self._kept[layer]) is not None:
            k, v = torch.cat((kept[0], k), dim=1), torch.cat((kept[1], v), dim=1)
        self._kept[layer] = k, v
        places = torch.arange(k.shape[1])
        seen = places[None] <= places[-q.shape[1] :, None]
        return functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=seen, enable_gqa=True)[0]


@pytest.mark.parametrize("number", range(1 + len(VARIANTS)))
def test_it_trains_and_is_published(policy: TinyPolicy, number: int, tmp_path: Path) -> None:
    del tmp_path
    form = forms(policy)[number]
    learner = Learner(form, CPU, passes=2)
    learner.share(policy.shared)
    if learner.lacks_tokens:
        learner.choose(torch.arange(form.draft_vocab_size))
    pack = collate(frames_of(replace(policy, form=form), 6, tokens=40), CPU)
    before = learner.tally(pack)
    for _ in range(25):
        learner.micro_step(pack, steps=False)
        learner.step()
    after = learner.tally(pack)
    assert sum(after.accepted) > sum(before.accepted)
    files = to_files(learner.weights(), form, META)
    assert format_of(config_of(files), read_config(policy.directory)) == form
    assert from_files(files, form).keys() == learner.weights().keys()
