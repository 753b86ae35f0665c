import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from tests.fakes.engine import FakeEngine
from tlt_common.bandit.windows import merged
from tlt_common.domain.arm import ArmWindow
from tlt_worker.speculation.round_log import RoundLog


def window(arm: str, group: int, rounds: int, accepted: int, reward: float) -> ArmWindow:
    return ArmWindow(
        arm=arm,
        group=group,
        rounds=rounds,
        accepted_tokens=accepted,
        produced_tokens=accepted + rounds * group,
        elapsed_s=0.1 * rounds,
        median_reward=reward,
    )


windows = st.lists(
    st.builds(
        window,
        arm=st.sampled_from(["off", "chain-3"]),
        group=st.sampled_from([1, 2, 4]),
        rounds=st.integers(1, 50),
        accepted=st.integers(0, 200),
        reward=st.floats(1, 1e4),
    )
)


@given(windows)
def test_merging_keeps_all_rounds_and_leaves_one_window_per_arm_and_group(parts: list[ArmWindow]) -> None:
    whole = merged(parts)
    assert sum(part.rounds for part in whole) == sum(part.rounds for part in parts)
    assert sum(part.produced_tokens for part in whole) == sum(part.produced_tokens for part in parts)
    assert sorted((part.arm, part.group) for part in whole) == sorted({(part.arm, part.group) for part in parts})
    assert {part.median_reward for part in whole} <= {part.median_reward for part in parts}


def test_the_median_of_the_larger_part_is_kept() -> None:
    (whole,) = merged([window("off", 1, 2, 0, 10.0), window("off", 1, 5, 0, 20.0)])
    assert (whole.rounds, whole.median_reward) == (7, 20.0)


@pytest.mark.looptime
async def test_rounds_drafts_and_switches_are_counted() -> None:
    def counted(name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(f"tlt_worker_{name}_total", labels) or 0.0

    engine = FakeEngine()
    await engine.start()
    names = ("rounds", "drafted_tokens", "accepted_draft_tokens")
    before = {name: counted(name, arm="chain-3") for name in names}
    switches = counted("arm_switches")
    async with asyncio.TaskGroup() as parts:
        collecting = parts.create_task(RoundLog(engine).run())
        engine.report(replace(window("chain-3", 1, 8, 20, 1.0), drafted_tokens=24), switches=3)
        await asyncio.sleep(1)
        collecting.cancel()
    assert {name: counted(name, arm="chain-3") - before[name] for name in names} == {
        "rounds": 8,
        "drafted_tokens": 24,
        "accepted_draft_tokens": 20,
    }
    assert counted("arm_switches") - switches == 3


@pytest.mark.looptime
async def test_the_log_shows_the_arm_of_most_rounds_and_the_accept_length_of_all() -> None:
    engine = FakeEngine()
    await engine.start()
    rounds = RoundLog(engine)
    assert (rounds.arm, rounds.accept_length) == ("", 0.0)
    async with asyncio.TaskGroup() as parts:
        collecting = parts.create_task(rounds.run())
        engine.report(window("off", 1, 2, 0, 1.0), window("chain-3", 1, 8, 20, 1.0))
        await asyncio.sleep(1)
        assert rounds.arm == "chain-3"
        assert rounds.accept_length == pytest.approx(3.0)
        engine.report()
        await asyncio.sleep(1)
        assert rounds.arm == "chain-3"  # an empty report says nothing new
        collecting.cancel()
