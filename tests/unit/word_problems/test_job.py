"""What the run needs, and when drafters are scored."""

from pathlib import Path

import pytest

from tlt_common.domain.fleet import DrafterRecord, DrafterWish, Fleet
from tlt_common.domain.ids import DrafterVersion, WorkerId
from tlt_common.errors import ConfigError, TltError
from tlt_local.models import published
from tlt_local.readiness import PUBLISHER
from word_problems.job import demo_real, score
from word_problems.settings import RealSettings

COLD, WARM = RealSettings(drafter=""), RealSettings(drafter="shipped")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let models be looked for in a directory that is empty."""
    monkeypatch.setattr(published, "home", lambda: tmp_path)
    return tmp_path


def fleet(*workers: str) -> Fleet:
    """Return a fleet whose drafters were published by these workers."""
    records = tuple(
        DrafterRecord(version=DrafterVersion(version), worker_id=WorkerId(worker), at_unix_s=1.0, held_out_top1=0.5)
        for version, worker in enumerate(workers, 1)
    )
    wish = DrafterWish(version=DrafterVersion(len(workers)), uri="nowhere") if workers else None
    return Fleet(workers=(), queued=0, drafter=wish, drafters=records, lending=False, bubble_utilisation=0.0)


def test_without_the_model_one_line_says_how_to_get_it(home: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        demo_real(COLD)
    assert caught.value.message == "smollm2 is not on this machine; `tlt models get smollm2` fetches it"
    assert not list(home.iterdir())


async def test_the_checkpoint_is_served_as_it_is(home: Path, tmp_path: Path) -> None:
    (home / "smollm2").mkdir()
    (home / "smollm2" / "config.json").write_text("{}")
    job = demo_real(WARM)
    assert await job.checkpoint(tmp_path) == home / "smollm2"
    assert (job.subject.command, job.program) == ("tlt demo-real", "word_problems.trainer")
    assert "4 of 30 layers" in job.subject.trained


@pytest.mark.parametrize(
    ("settings", "workers"), [(COLD, ("w",)), (WARM, ()), (WARM, (PUBLISHER,))], ids=["cold", "none", "not trained"]
)
async def test_drafters_are_scored_only_if_there_are_two(
    settings: RealSettings, workers: tuple[str, ...], tmp_path: Path
) -> None:
    assert await score(settings, tmp_path, fleet(*workers)) is None


async def test_a_failed_score_names_its_log(tmp_path: Path) -> None:
    with pytest.raises(TltError, match=r"scoring failed: .*scoring\.log"):
        await score(WARM, tmp_path, fleet(PUBLISHER, "w"))
