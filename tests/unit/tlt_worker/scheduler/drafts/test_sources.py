"""A kind of arm is one module on each side of the process line: this one is defined here, and everything runs it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tlt_common.bandit import Bandit, BanditConfig
from tlt_common.domain.arm import OFF, Arm, arm_named, chain, ngram
from tlt_common.domain.arm.arm import KINDS, register
from tlt_worker.capacity.engine_plan import plan_engine
from tlt_worker.capacity.graphs.runner import Stage, runners_of
from tlt_worker.capacity.memory.memory import Memory
from tlt_worker.capacity.profile import Accelerator, profile_of
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.engine_config import EngineConfig
from tlt_worker.link.settings import LinkSettings
from tlt_worker.scheduler.arms.switching import ArmSwitching
from tlt_worker.scheduler.drafts import source
from tlt_worker.scheduler.drafts.kinds.ngram import Retrieval
from tlt_worker.scheduler.drafts.sources import Sources


@dataclass(frozen=True, slots=True)
class Repeat:
    """`repeat-N`: the last token, N times."""

    name: str = "repeat"
    accepted: str = "repeat-N"
    needs_drafter: bool = False
    finds_drafts: bool = True

    def name_of(self, arm: Arm) -> str:
        return f"repeat-{arm.steps}"

    def parse(self, name: str) -> Arm | None:
        kind, _, steps = name.partition("-")
        return repeat(int(steps)) if kind == self.name and steps.isdecimal() else None

    def tells_of(self, arm: Arm, other: Arm) -> bool:
        return other.kind == self.name and other.steps < arm.steps


def repeat(steps: int) -> Arm:
    return Arm(steps, 1, steps + 1, "repeat")


@dataclass
class Repeated:
    """Drafts of requests of which the last token is known."""

    found: source.Found = field(default_factory=list)
    size_bytes: int = 8
    rounds: int = 0

    def find(self, batch: Any, steps: int) -> int:
        self.found = [req.tokens[-1:] * steps for req in batch.reqs]
        return sum(map(len, self.found))

    def drafts(self, batch: Any, steps: int) -> Tensor:
        return torch.tensor([[*found, *[0] * (steps - len(found))] for found in self.found])

    def launched(self, batch: Any, result: Any) -> None:
        self.rounds += 1

    def processed(self, batch: Any, result: Any) -> None:
        self.rounds -= 1


@pytest.fixture(autouse=True)
def repeat_is_a_kind() -> Iterator[None]:
    register(Repeat())
    source.register("repeat", lambda settings, leads: Repeated())
    yield
    del KINDS["repeat"], source.MAKERS["repeat"]


def engine(*arms: Arm) -> EngineConfig:
    return EngineConfig(arms=tuple(arm.name for arm in arms), max_running=4)


def settings(*arms: Arm) -> LinkSettings:
    return LinkSettings(directory="/nowhere", engine=engine(*arms))


def batch(*tokens: list[int]) -> Any:
    return SimpleNamespace(reqs=[SimpleNamespace(tokens=one) for one in tokens])


def test_its_arms_have_names_and_cross_the_process_line() -> None:
    assert arm_named("repeat-4") == repeat(4)
    with pytest.raises(ValueError, match="repeat-N"):
        arm_named("repaet-4")
    sent = settings(OFF, chain(3), repeat(4))
    assert LinkSettings.from_json(sent.to_json()).arms == sent.arms


def test_its_rounds_are_planned_without_passes_of_the_drafter() -> None:
    assert [runner.stage for runner in runners_of(repeat(4))] == [Stage.VERIFY]
    shape = ModelShape(layers=2, hidden=32, heads=4, kv_heads=2, head_dim=8, intermediate=64, vocab=100)
    config = engine(repeat(4))
    profile = profile_of(config, Accelerator(kind="cpu"))
    planned = plan_engine(config, profile=profile, shape=shape, memory=Memory(graphs=0, work=10**9), context_length=64)
    assert planned.max_batch[repeat(4)] == 4


def test_the_bandit_learns_of_shorter_ones_from_longer_ones() -> None:
    bandit = Bandit([repeat(2), repeat(4)], BanditConfig(), seed=0)
    for _ in range(5):
        bandit.record(repeat(2), 1, [0], 0.01)
    for _ in range(200):
        bandit.record(repeat(4), 1, [4], 0.5)
        bandit.record(OFF, 1, [0], 0.01)
    chosen = [bandit.choose(1) for _ in range(200)]
    assert chosen.count(repeat(2)) > 150  # its own rounds kept nothing; the longer arm's show that it would keep two


def test_it_runs_without_a_drafter_and_only_where_enough_is_found() -> None:
    sources = Sources.of(settings(OFF, repeat(4)), leads=True)
    switch = ArmSwitching(
        bandit=Bandit([repeat(4)], BanditConfig(), seed=0), report=lambda report: None, clock=lambda: 0.0
    )
    switch.forced = [repeat(4)]
    known, new = batch([5, 7], [9]), batch([], [])
    assert switch.launch(2, blocked=False, find=lambda arm: sources.find(arm, known)).arm == repeat(4)
    assert sources.found(repeat(4)) == [[7] * 4, [9] * 4]
    assert switch.launch(2, blocked=False, find=lambda arm: sources.find(arm, new)).arm == OFF


def test_its_source_drafts_what_rank_0_found_and_sees_every_round() -> None:
    sources = Sources.of(settings(OFF, ngram(3), repeat(4)), leads=False)
    assert sources.source(OFF) is sources.source(chain(3)) is None
    assert isinstance(sources.source(ngram(3)), Retrieval)
    sources.agree(repeat(4), [[1, 2], [3]])
    made = sources.source(repeat(4))
    assert isinstance(made, Repeated)
    assert made.drafts(batch([], []), 4).tolist() == [[1, 2, 0, 0], [3, 0, 0, 0]]
    assert sources.found(OFF) == []
    assert sources.size_bytes >= 8
    sources.launched(batch([1]), None)
    assert made.rounds == 1
    sources.processed(SimpleNamespace(reqs=[]), None)
    assert made.rounds == 0


def test_only_what_the_arms_need_is_made() -> None:
    assert Sources.of(settings(OFF, chain(3)), leads=True).by_kind == {}
    assert list(Sources.of(settings(OFF, repeat(2), repeat(4)), leads=True).by_kind) == ["repeat"]


def test_a_kind_with_two_owners_or_without_a_source_is_refused() -> None:
    with pytest.raises(ValueError, match="arm kind 'repeat' is registered twice"):
        register(Repeat("repeat", "another"))
    with pytest.raises(ValueError, match="already have a draft source"):
        source.register("repeat", lambda settings, leads: Repeated())
    del source.MAKERS["repeat"]
    with pytest.raises(ValueError, match="'repeat' have no draft source; accepted: ngram"):
        Sources.of(settings(repeat(4)), leads=True)
    source.register("repeat", lambda settings, leads: Repeated())
