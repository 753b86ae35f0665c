"""Which run is measured, and what is refused before it starts."""

from pathlib import Path
from typing import Any

import pytest

from tlt_bench import rollout
from tlt_common.errors import ConfigError
from tlt_local.models import published

OPTIONS: dict[str, Any] = {
    "quick": False, "warm": False, "no_tail": False, "shallow": False,
    "model": None, "drafter": None, "asynchronous": False, "packed": False, "minutes": None, "keep": None,
}  # fmt: skip


@pytest.fixture(autouse=True)
def unfetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no model be on this machine, and nothing run."""
    monkeypatch.setattr(published, "home", lambda: tmp_path)
    monkeypatch.setattr(rollout, "recorded", lambda *_: pytest.fail("a run began"))


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"model": "gemma"}, "model", "accepted: smollm2"),
        ({"model": "smollm2", "quick": True}, "model", "not accepted with --quick"),
        ({"model": "smollm2", "no_tail": True}, "model", "not accepted with --quick"),
        ({"model": "smollm2", "shallow": True}, "model", "not accepted with --quick"),
        ({"model": "smollm2", "drafter": "none"}, "model", "`tlt models get smollm2`"),
        ({"model": "smollm2", "drafter": "/nowhere"}, "drafter", "the directory of one, or none"),
        ({"drafter": "none"}, "drafter", "with --model only"),
        ({"quick": True, "warm": True}, "warm", "use one of them"),
        ({"packed": True}, "packed", "with --async only"),
        ({"asynchronous": True, "quick": True}, "async", "--async is not accepted with --quick"),
        ({"asynchronous": True, "model": "smollm2"}, "async", "--async is not accepted with --quick"),
        ({"asynchronous": True, "keep": Path("kept")}, "async", "or --keep"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused(given: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        rollout.measure(**OPTIONS | given)
    assert caught.value.field == field
