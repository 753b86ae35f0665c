"""Arms of an engine: how wide it is launched, and what a switch changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tlt_common.domain.arm import OFF, Arm, block, chain, ngram, tree
from tlt_common.errors import ConfigError
from tlt_worker.capacity.width import drafter_steps, launch_width, samples_drafts
from tlt_worker.scheduler.arms.states import ArmStates


@pytest.mark.parametrize(
    ("arms", "width"),
    [
        ((OFF, chain(3), chain(7), chain(5)), 8),
        ((chain(3), tree(3, 4, 8)), 12),
        ((chain(3), tree(2, 4, 16)), 16),
        ((tree(1, 4, 4),), 4),
        ((OFF, ngram(5)), 6),
        ((OFF, block(7), block(15)), 16),
    ],
)
def test_an_engine_has_room_for_its_widest_round(arms: tuple[Arm, ...], width: int) -> None:
    assert launch_width(arms) == width


def test_an_engine_that_never_drafts_is_launched_in_the_least_shape() -> None:
    assert launch_width((OFF,)) == 2


@pytest.mark.parametrize(
    ("building", "steps"), [(None, 0), (OFF, 0), (ngram(5), 0), (chain(7), 7), (tree(8, 8, 64), 8), (block(7), 0)]
)
def test_only_arms_that_draft_with_the_drafter_have_backends_for_its_steps(building: Arm | None, steps: int) -> None:
    assert drafter_steps(building) == steps


class FakeWorker:
    """SGLang's worker and configuration as far as arms see them."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.built: list[tuple[Arm, dict[str, Any]]] = []
        self.used: list[tuple[Arm, Any]] = []

    @contextmanager
    def override(self, **settings: Any) -> Iterator[None]:
        before, self.settings = self.settings, settings
        yield
        self.settings = before

    def build_state(self, arm: Arm) -> str:
        self.built.append((arm, self.settings))
        return f"state of {arm.name}"

    def use(self, arm: Arm, state: str) -> None:
        self.used.append((arm, state))


def states_of(*arms: Arm, rejects: bool = True) -> tuple[FakeWorker, ArmStates]:
    worker = FakeWorker()
    states = ArmStates(worker=worker, override=worker.override, arms=arms, rejects=rejects)
    states.build()
    return worker, states


def test_each_arm_is_built_once_under_its_own_settings() -> None:
    worker, _ = states_of(OFF, chain(3), tree(3, 4, 8), chain(3))
    assert [arm for arm, _ in worker.built] == [OFF, chain(3), tree(3, 4, 8)]
    by_arm = dict(worker.built)
    assert by_arm[tree(3, 4, 8)] == {
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 4,
        "speculative_num_draft_tokens": 8,
        "speculative_use_rejection_sampling": False,
    }
    assert by_arm[chain(3)]["speculative_use_rejection_sampling"]


def test_arms_of_equal_steps_are_switched_between() -> None:
    worker, states = states_of(OFF, tree(3, 4, 8), tree(3, 2, 5), chain(3))
    for arm in (chain(3), tree(3, 4, 8), tree(3, 2, 5), tree(3, 2, 5), OFF, OFF):
        with states.running(arm):
            assert states.current == arm
            assert worker.settings["speculative_num_draft_tokens"] == arm.draft_tokens
    assert worker.settings == {}, "what is decided between rounds sees the launch shape"
    assert [arm for arm, _ in worker.used] == [chain(3), tree(3, 4, 8), tree(3, 2, 5), OFF]
    assert worker.used[0][1] == "state of chain-3"


def test_without_rejection_no_arm_asks_for_it() -> None:
    worker, _ = states_of(OFF, chain(3), rejects=False)
    assert not any(settings["speculative_use_rejection_sampling"] for _, settings in worker.built)


def test_arms_are_found_by_name() -> None:
    _, states = states_of(OFF, chain(3))
    assert states.named("chain-3") == chain(3)
    with pytest.raises(ConfigError, match="chain-9"):
        states.named("chain-9")


def test_top_1_chains_and_trees_do_not_sample() -> None:
    assert samples_drafts((OFF, chain(3)))
    assert not samples_drafts((OFF, chain(3, sampled=False), tree(3, 4, 8)))
