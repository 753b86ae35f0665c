"""The configuration with which a recorded run is predicted."""

from pathlib import Path

import pytest

from tests.unit.tlt_simulator.fit.journals import recording
from tlt_common.errors import ConfigError
from tlt_simulator.cli.fit_command import fit


def fitted(directory: Path, *settings: str, held_out: bool = True) -> None:
    fit(
        directory, card=None, model=None, gpus_per_worker=1, held_out=held_out, settings=settings, save=None,
        json_to="", seed=0,
    )  # fmt: skip


def test_a_run_is_predicted_with_the_keys_that_it_was_recorded_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording().write(tmp_path)
    fitted(tmp_path)
    plain = capsys.readouterr().out
    fitted(tmp_path, "coordinator.lending=false")
    unlent = capsys.readouterr().out
    assert "step_time_error" in plain
    assert plain != unlent


def test_what_a_fit_extrapolates_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fitted(recording().write(tmp_path), held_out=False)
    assert "Extrapolated: drafters: the first draft is accepted with up to 0.9" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "held_out", "match"),
    [(("spot.nothing=1",), True, "spot.nothing"), (("publish.gain=0",), False, "accepted: with --held-out")],
)
def test_a_key_that_is_not_accepted_is_refused(
    tmp_path: Path, settings: tuple[str, ...], held_out: bool, match: str
) -> None:
    with pytest.raises(ConfigError, match=match):
        fitted(recording().write(tmp_path), *settings, held_out=held_out)
