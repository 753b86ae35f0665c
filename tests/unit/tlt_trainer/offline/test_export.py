"""A published drafter becomes files for other engines."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save
from typer.testing import CliRunner

from tests.unit.tlt_trainer.tiny import TinyPolicy
from tlt_common.drafter.eagle3 import Eagle3Format
from tlt_common.drafter.meta import CONFIG_FILE, META_FILE, WEIGHTS_FILE, DrafterMeta
from tlt_common.drafter.tensors import BIAS, MAP
from tlt_common.errors import ConfigError, WeightsError
from tlt_trainer.cli import app
from tlt_trainer.drafter.export import CARD_FILE, ExportFormat, exported
from tlt_trainer.drafter.files import to_files
from tlt_trainer.offline.exporting import export_to

META = DrafterMeta(version=3, base=2, worker_id="w", steps=500, tokens=70000, held_out_top1=0.612)


@pytest.fixture
def files(policy: TinyPolicy) -> dict[str, bytes]:
    weights = {name: torch.ones(shape) for name, shape in policy.form.tensor_shapes().items()}
    return to_files(weights, policy.form, META)


def test_sglang_gets_what_was_published(files: dict[str, bytes]) -> None:
    written = exported(files, ExportFormat.SGLANG)
    assert json.loads(written[CONFIG_FILE]) == json.loads(files[CONFIG_FILE])
    mine, theirs = load(written[WEIGHTS_FILE]), load(files[WEIGHTS_FILE])
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_vllm_gets_a_llama_without_a_bias(files: dict[str, bytes]) -> None:
    """Its loader calls the class EagleLlamaForCausalLM, whose layer has no bias."""
    written = exported(files, ExportFormat.VLLM)
    config = json.loads(written[CONFIG_FILE])
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert "bias" not in config
    assert load(written[WEIGHTS_FILE]).keys() == load(files[WEIGHTS_FILE]).keys() - {BIAS}


def test_vllm_gets_eagle3s_layers_by_its_own_numbers(policy: TinyPolicy) -> None:
    sizes = {field.name: getattr(policy.form, field.name) for field in fields(policy.form)}
    form = Eagle3Format(**{**sizes, "layers": (1, 3, 4), "draft_vocab_size": 8})
    weights = {name: torch.ones(shape) for name, shape in form.tensor_shapes().items()} | {MAP: torch.arange(8)}
    files = to_files(weights, form, META)
    written = exported(files, ExportFormat.VLLM)
    config = json.loads(written[CONFIG_FILE])
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    assert config["eagle_aux_hidden_state_layer_ids"] == [2, 4, 5]
    assert config["eagle_config"] == {"use_aux_hidden_state": True}
    assert "bias" not in config
    tensors = load(written[WEIGHTS_FILE])
    assert tensors.keys() == load(files[WEIGHTS_FILE]).keys() - {BIAS}
    assert torch.equal(tensors[MAP], torch.arange(8))
    two = to_files(weights, replace(form, layers=(1, 3)), META)
    with pytest.raises(WeightsError, match=r"layers \[1, 3\]; vLLM reads 3"):
        exported(two, ExportFormat.VLLM)


def test_a_bias_that_vllm_cannot_hold_is_refused(files: dict[str, bytes]) -> None:
    tensors = load(files[WEIGHTS_FILE])
    tensors[BIAS][0] = 1.0
    with pytest.raises(WeightsError, match="not zero"):
        exported({**files, WEIGHTS_FILE: save(tensors)}, ExportFormat.VLLM)
    assert load(exported({**files, WEIGHTS_FILE: save(tensors)}, ExportFormat.SGLANG)[WEIGHTS_FILE])[BIAS][0] == 1.0


@pytest.mark.parametrize("to", list(ExportFormat))
def test_the_card_tells_where_it_comes_from_and_how_it_is_used(files: dict[str, bytes], to: ExportFormat) -> None:
    page = exported(files, to, model="acme/reasoner")[CARD_FILE].decode()
    assert page.startswith("---\nlibrary_name: transformers\n")
    assert 'base_model: "acme/reasoner"' in page
    assert "Version 3, after 500 steps on 70000 tokens" in page
    assert "61.2%" in page
    assert {"sglang": "sglang.launch_server", "vllm": "vllm serve"}[to] in page
    unknown = exported({name: files[name] for name in (WEIGHTS_FILE, CONFIG_FILE)}, to)
    assert "No record of its training" in unknown[CARD_FILE].decode()
    assert META_FILE not in unknown


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (WEIGHTS_FILE, b"cut", "cannot be read"),
        (WEIGHTS_FILE, save({"x": torch.ones(1)}), "not the files of a drafter"),
        (CONFIG_FILE, b"{", "cannot be read"),
        (CONFIG_FILE, b"[]", "not the files of a drafter"),
        (CONFIG_FILE, b'{"architectures": ["LlamaForCausalLM"]}', "architectures are .*accepted"),
        (CONFIG_FILE, b'{"architectures": ["LlamaForCausalLMEagle"]}', "architectures are .*accepted"),
        (META_FILE, b"{}", "missing or invalid"),
    ],
)
def test_damaged_files_are_refused(files: dict[str, bytes], name: str, content: bytes, message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        exported({**files, name: content}, ExportFormat.VLLM)


def publish(files: dict[str, bytes], directory: Path) -> Path:
    directory.mkdir(parents=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return directory


def test_the_newest_of_several_is_exported_or_the_one_that_is_named(files: dict[str, bytes], tmp_path: Path) -> None:
    for version in ("000001-00000100-aaaaaa", "000002-00000200-bbbbbb"):
        publish(files, tmp_path / "drafters" / version)
    publish({WEIGHTS_FILE: b"half-written"}, tmp_path / "drafters" / "000003-00000300-cccccc")
    done = CliRunner().invoke(app, ["export", f"{tmp_path}/drafters/", "--to", str(tmp_path / "a")])
    assert done.exit_code == 0, done.output
    assert "000002" in done.output
    named = f"file://{tmp_path}/drafters/000001-00000100-aaaaaa"
    assert export_to(named, tmp_path / "b", "vllm") == named
    for directory in ("a", "b"):
        assert {path.name for path in (tmp_path / directory).iterdir()} == {
            WEIGHTS_FILE, CONFIG_FILE, META_FILE, CARD_FILE,
        }  # fmt: skip


def test_bad_arguments_are_refused_by_name(files: dict[str, bytes], tmp_path: Path) -> None:
    good = str(publish(files, tmp_path / "drafter"))
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").touch()
    for source, to, engine, field in (
        (good, tmp_path / "new", "tensorrt", "format"),
        (good, taken, "vllm", "to"),
        (good, taken / "mine", "vllm", "to"),
        (good, taken / "mine" / "below", "vllm", "to"),
        (str(tmp_path / "nothing"), tmp_path / "new", "vllm", "source"),
        (str(taken), tmp_path / "new", "vllm", "source"),
        ("gopher://x", tmp_path / "new", "vllm", "source"),
    ):
        with pytest.raises(ConfigError, match=r"accepted|written") as refused:
            export_to(source, to, engine)
        assert refused.value.field == field
    assert not (tmp_path / "new").exists()
    assert (taken / "mine").read_bytes() == b""
