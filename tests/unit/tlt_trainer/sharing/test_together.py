"""Several trainers, in any order of training, publishing, being overtaken and dying: nothing published is ever lost."""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.tlt_trainer.fleet_trainer import SCORE, Trainer
from tests.unit.tlt_trainer.inline import FakeFleet
from tests.unit.tlt_trainer.tiny import TinyPolicy
from tlt_common.drafter.meta import META_FILE, WEIGHTS_FILE, meta_of
from tlt_trainer.store.storage import read_uri

TRAINERS = 3
DEEDS = ("train", "publish", "overtaken", "follow", "die")
deeds = st.lists(st.tuples(st.integers(0, TRAINERS - 1), st.sampled_from(DEEDS)), max_size=25)


class Group:
    """Trainers of one fleet, and the tokens they should have between them."""

    def __init__(self, policy: TinyPolicy, root: Path) -> None:
        self._policy, self._root = policy, root
        self.fleet = FakeFleet()
        self.lives = 0
        self.trained, self.lost = 0, 0
        self.trainers = [self._born() for _ in range(TRAINERS)]

    async def do(self, who: int, deed: str) -> None:
        trainer = self.trainers[who]
        if deed == "train":
            self._train(trainer, tokens=100 + who)
        elif deed == "follow":
            await trainer.sharing.follow()
        elif deed == "die":
            self.lost += trainer.learner.counters.own_tokens
            self.trainers[who] = self._born()
        else:
            self.fleet.hides_newest = deed == "overtaken"
            await trainer.sharing.publish(SCORE, None)
            self.fleet.hides_newest = False

    async def calm(self) -> None:
        """Let everybody publish what it has, and then follow."""
        for trainer in self.trainers:
            while trainer.learner.counters.own_tokens:
                await trainer.sharing.publish(SCORE, None)
        for trainer in self.trainers:
            await trainer.sharing.follow()

    @property
    def published_tokens(self) -> int:
        wish = self.fleet.drafter
        files = read_uri(wish.uri, mark=WEIGHTS_FILE) if wish else {}
        return meta_of(files).tokens if META_FILE in files else 0

    @property
    def own_tokens(self) -> int:
        return sum(trainer.learner.counters.own_tokens for trainer in self.trainers)

    def _born(self) -> Trainer:
        self.lives += 1
        return Trainer(self._policy, self.fleet, self._root, f"t{self.lives}")

    def _train(self, trainer: Trainer, *, tokens: int) -> None:
        """Change the weights as training would, without its cost."""
        self.trained += tokens
        learner, generator = trainer.learner, torch.Generator().manual_seed(self.trained)
        state = learner.state()
        for part in (state.weights, state.average):
            for tensor in part.values():
                tensor.add_(0.01 * torch.randn(tensor.shape, generator=generator))
        learner.counters = replace(
            learner.counters, steps=learner.counters.steps + 1, tokens=learner.counters.tokens + tokens
        )


@settings(max_examples=25, deadline=None)
@given(deeds)
def test_every_token_is_counted_once_and_all_end_with_the_same_weights(
    policy: TinyPolicy, course: list[tuple[int, str]]
) -> None:
    async def live(root: Path) -> None:
        group = Group(policy, root)
        for who, deed in course:
            await group.do(who, deed)
            assert group.published_tokens + group.own_tokens == group.trained - group.lost
        await group.calm()
        assert group.own_tokens == 0
        assert group.published_tokens == group.trained - group.lost
        first, *others = (trainer.learner.averaged() for trainer in group.trainers)
        for other in others:  # who published last has not rounded its own
            assert all(torch.equal(tensor.bfloat16(), other[name].bfloat16()) for name, tensor in first.items())

    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(live(Path(scratch)))
