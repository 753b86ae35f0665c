"""Accept lengths that the grid takes from an earlier result."""

import json
from pathlib import Path

import pytest

from tlt_bench.arms.grid import CHAINS, TREES, accept_lengths_in
from tlt_common.domain.arm import arms_named
from tlt_common.errors import ConfigError


def test_its_arms_exist() -> None:
    assert [arm.name for arm in arms_named((*CHAINS, *TREES))] == [*CHAINS, *TREES]


def test_lengths_at_batch_1_are_read(tmp_path: Path) -> None:
    figures = {
        "accept_chain-3_bs1": 3.5,
        "accept_chain-3_bs16": 3.0,
        "accept_tree-4x8-16_bs1": 4,
        "cost_chain-3_bs1": 1,
    }
    (tmp_path / "accept.json").write_text(json.dumps({"figures": figures}))
    assert accept_lengths_in(tmp_path / "accept.json") == {"chain-3": 3.5, "tree-4x8-16": 4.0}


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"figures": {"speedup_bs1": 2}}', '{"figures": {"accept_off_bs1": "x"}}']
)
def test_other_files_are_refused_by_option(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(ConfigError, match="--accept-lengths"):
        accept_lengths_in(tmp_path / "other.json")
    with pytest.raises(ConfigError, match="--accept-lengths"):
        accept_lengths_in(tmp_path / "absent.json")
