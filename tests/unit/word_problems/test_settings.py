"""Which run is chosen by which options."""

from pathlib import Path

import pytest

from tlt_common.errors import ConfigError
from word_problems.settings import DRAFTER, RealSettings, chosen

ROOT = Path(__file__).parents[3]


@pytest.fixture
def drafter(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text("{}")
    return str(tmp_path)


def test_a_run_starts_with_the_drafter_that_is_named(drafter: str) -> None:
    assert chosen(drafter=drafter) == RealSettings(drafter=drafter)
    assert chosen(drafter="none", minutes=8).drafter == ""
    assert chosen(drafter="none", minutes=8).minutes == 8


def test_a_run_is_paired_in_float32_or_sampled_in_bfloat16() -> None:
    assert (chosen().paired, chosen().dtype) == (True, "float32")
    assert (chosen(sampled=True).paired, chosen(sampled=True).dtype) == (False, "bfloat16")


def test_the_shipped_drafter_is_the_usual_one() -> None:
    assert RealSettings().drafter == str(DRAFTER)
    assert DRAFTER == ROOT / "demos/word_problems/drafter"


def test_a_path_without_a_drafter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no drafter; accepted: the directory of one, or none") as caught:
        chosen(drafter=str(tmp_path))
    assert caught.value.field == "drafter"
