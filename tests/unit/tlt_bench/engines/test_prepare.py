"""What benches run on."""

import json
import shutil
from pathlib import Path

import pytest

from countdown.model import CHECKPOINT
from countdown.settings import DRAFTER
from tlt_bench import random_models
from tlt_bench.arms.engine import PARTS, measure
from tlt_bench.engines.prepare import NO_DRAFTER, SHIPPED, BenchTarget, check_parts
from tlt_bench.shapes import DRAFTER as RANDOM_DRAFTER
from tlt_bench.shapes import DRAFTER3, MODEL, SHAPE, SHAPES, reduced
from tlt_common.errors import ConfigError
from tlt_local.models.published import SMOLLM2
from tlt_worker.checkpoints import policy as weights
from tlt_worker.checkpoints.drafter import first_drafter
from tlt_worker.engine_config import EngineConfig

TINY = {**SHAPE, "vocab_size": 32, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2}  # fmt: skip


def test_a_model_and_a_drafter_belong_together() -> None:
    BenchTarget(model=CHECKPOINT, drafter=DRAFTER)
    with pytest.raises(ConfigError, match="together"):
        BenchTarget(model=CHECKPOINT)


def test_a_model_that_was_not_fetched_is_refused_with_the_command_that_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="`tlt models get smollm2` fetches it") as refused:
        BenchTarget(model=Path("smollm2"))
    assert refused.value.field == "model"


def test_a_fetched_model_has_the_drafter_that_is_shipped_for_it_or_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(CHECKPOINT, SMOLLM2.directory)
    monkeypatch.setitem(SHIPPED, "smollm2", tmp_path / "missing")
    for named in (Path("smollm2"), SMOLLM2.directory):
        with pytest.raises(ConfigError, match=r"--drafter: .*missing has no config\.json"):
            BenchTarget(model=named)
        assert BenchTarget(model=named, drafter=NO_DRAFTER).checkpoint == SMOLLM2.directory
    monkeypatch.setitem(SHIPPED, "smollm2", DRAFTER)
    assert BenchTarget(model=Path("smollm2")).served_drafter == DRAFTER


def test_what_needs_a_drafter_says_so() -> None:
    BenchTarget().require_drafter("chain-7")
    with pytest.raises(ConfigError, match="--drafter is none, but part speed needs one"):
        measure(BenchTarget(drafter=NO_DRAFTER), quick=True, parts=("off", "speed"))


@pytest.mark.parametrize("device", ["tpu", "cuda:1"])
def test_unknown_devices_are_refused(device: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BenchTarget(device=device)
    assert refused.value.field == "device"


def test_folders_without_a_checkpoint_are_refused_by_option(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--drafter"):
        BenchTarget(model=CHECKPOINT, drafter=tmp_path)


def test_parts_are_named() -> None:
    assert check_parts(["off"], PARTS) == ("off",)
    with pytest.raises(ConfigError, match="adaptive"):
        check_parts(["on"], PARTS)


def test_random_weights_are_a_checkpoint_and_its_drafter(tmp_path: Path) -> None:
    random_models.write(tmp_path, TINY)
    model, drafter = tmp_path / MODEL, tmp_path / RANDOM_DRAFTER
    headers = weights.read_headers(model)
    assert headers["lm_head.weight"].shape == (32, 32)
    assert headers["model.layers.1.self_attn.k_proj.weight"].shape == (16, 32)
    _, tensors = first_drafter(EngineConfig(drafter=drafter), json.loads((model / "config.json").read_text()))
    assert "fc.weight" in dict(tensors)


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_is_written_once_with_drafters_that_fit(tmp_path: Path, name: str) -> None:
    random_models.write_missing(tmp_path, [name], device="cpu")
    config = json.loads((tmp_path / name / MODEL / "config.json").read_text())
    written = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.safetensors")}
    assert random_models.write_missing(tmp_path, [name], device="cpu")[name] > 0
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.safetensors")} == written
    for drafter, has_map in ((RANDOM_DRAFTER, False), (DRAFTER3, True)):
        form, _ = first_drafter(EngineConfig(drafter=tmp_path / name / drafter), config)
        assert form.has_map == has_map


def test_a_reduced_shape_is_of_the_same_family() -> None:
    for shape in SHAPES.values():
        small = reduced(shape)
        assert (small["architectures"], small.keys()) == (shape["architectures"], shape.keys())
        assert small["hidden_size"] < shape["hidden_size"]


@pytest.mark.parametrize("length", [0.5, float("nan")])
def test_an_accept_length_is_at_least_one(length: float) -> None:
    with pytest.raises(ConfigError, match="--accept-length"):
        BenchTarget(accept_length=length)
