"""Cost models in files."""

import json
from pathlib import Path
from typing import Any

import pytest

from tlt_common.errors import ConfigError
from tlt_simulator.costs.files import load, save
from tlt_simulator.costs.roofline import calculated

COSTS = calculated("h200", "30b-a3b")


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    save(COSTS, tmp_path / "costs.json")
    assert load(tmp_path / "costs.json") == COSTS
    assert json.loads((tmp_path / "costs.json").read_text())["format"] == "tlt-costs/2"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"format": "tlt-costs/1"}, "another format"),
        ({"kv_token_s": {"value": -1.0, "source": "assumed"}}, r"kv_token_s\.value"),
        ({"kv_token_s": {"value": 1.0, "low": 2.0, "source": "assumed"}}, "must be in this order"),
        ({"kv_token_s": {"value": 1.0, "source": "guessed"}}, r"kv_token_s\.source"),
        ({"round_s": 3.0}, "round_s"),
    ],
)
def test_a_file_that_is_no_cost_model_is_refused_by_field(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    path = tmp_path / "costs.json"
    save(COSTS, path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ConfigError, match=match):
        load(path)


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_file_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "costs.json").write_text(text)
    with pytest.raises(ConfigError, match="tlt-costs/2"):
        load(tmp_path / "costs.json")
    with pytest.raises(ConfigError, match="cannot be written"):
        save(COSTS, tmp_path)
