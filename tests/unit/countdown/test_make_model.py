from pathlib import Path

import pytest
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from countdown.make_model import PLATEAU, Progress, learning_rate_factor, make_model
from countdown.model import WEIGHTS_FILE
from countdown.packing import BATCH_TOKENS


def short_run(directory: Path, *, steps: int, seed: int = 0) -> Progress:
    return make_model(directory, minutes=60, threads=1, seed=seed, token_budget=steps * BATCH_TOKENS)


def test_a_run_learns_and_leaves_a_checkpoint(tmp_path: Path) -> None:
    progress = short_run(tmp_path, steps=8)
    untrained = short_run(tmp_path / "untrained", steps=1)
    assert progress.token_count == 8 * BATCH_TOKENS
    assert progress.loss < untrained.loss
    AutoModelForCausalLM.from_pretrained(tmp_path)


def test_a_run_repeats(tmp_path: Path) -> None:
    first, second = (short_run(tmp_path / name, steps=2, seed=5) for name in ("first", "second"))
    assert first.loss == second.loss
    states = [load_file(tmp_path / name / WEIGHTS_FILE) for name in ("first", "second")]
    assert all(states[0][key].equal(states[1][key]) for key in states[0])


def test_a_run_without_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow more"):
        make_model(tmp_path, minutes=1e-9, threads=1)


def test_the_learning_rate_rises_stays_and_falls() -> None:
    assert learning_rate_factor(0, 0.0) < 0.1
    assert learning_rate_factor(100, PLATEAU) == 1.0
    assert 0.4 < learning_rate_factor(100, (1 + PLATEAU) / 2) < 0.6
    assert 0 < learning_rate_factor(100, 1.0) < 0.02
