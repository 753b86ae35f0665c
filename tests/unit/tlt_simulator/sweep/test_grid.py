import pytest

from tests.unit.tlt_simulator.comparisons import scenario
from tlt_common.errors import ConfigError
from tlt_simulator.sweep.sweep import combinations, grid, scenarios


def test_all_combinations_the_last_key_fastest() -> None:
    over = grid(["spot.max_trainers=1,2", "gateway.pack_running=0,2"])
    assert combinations(over) == (
        {"spot.max_trainers": "1", "gateway.pack_running": "0"},
        {"spot.max_trainers": "1", "gateway.pack_running": "2"},
        {"spot.max_trainers": "2", "gateway.pack_running": "0"},
        {"spot.max_trainers": "2", "gateway.pack_running": "2"},
    )


def test_a_value_with_commas_stands_in_brackets() -> None:
    over = grid(["worker.engine.arms=[off],[off,chain-3],null"])
    assert over == {"engine.arms": ("off", "off,chain-3", "null")}
    found = scenarios(scenario(), combinations(over))
    assert [one.suite.engine.arms for one in found] == [("off",), ("off", "chain-3"), None]
    limits = grid(['engine.group_below_requests={},{"8":3,"16":2}'])
    found = scenarios(scenario(), combinations(limits))
    assert [one.suite.engine.group_below_requests for one in found] == [{}, {8: 3, 16: 2}]


@pytest.mark.parametrize(
    "options",
    [["spot.max_trainers"], ["=1,2"], ["spot.max_trainers="], ["spot.max_trainers=1,,2"], ["spot.max_trainers=1,1"],
     ["spot.max_trainers=1", "coordinator.spot.max_trainers=2"]],
)  # fmt: skip
def test_other_forms_are_refused(options: list[str]) -> None:
    with pytest.raises(ConfigError, match="--over"):
        grid(options)


def test_too_many_combinations_are_refused() -> None:
    values = ",".join(str(value) for value in range(1, 102))
    with pytest.raises(ConfigError, match="10,201 combinations"):
        combinations(grid([f"spot.max_trainers={values}", f"fleet.workers={values}"]))


def test_an_invalid_value_is_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match=r"--over gateway\.pack_running"):
        scenarios(scenario(), combinations(grid(["gateway.pack_running=0,-1"])))
