"""Checkpoints are judged by their headers."""

import json
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tlt_common.errors import ConfigError, WeightsError
from tlt_worker.engine.checkpoints.policy import compare, read_headers, total_bytes
from tlt_worker.model_config import read_config


def write(directory: Path, **tensors: torch.Tensor) -> Path:
    directory.mkdir(exist_ok=True)
    save_file(tensors, directory / "model.safetensors")
    return directory


def test_headers_say_what_files_hold(tmp_path: Path) -> None:
    directory = write(tmp_path, a=torch.zeros(2, 3), b=torch.zeros(4, dtype=torch.bfloat16))
    headers = read_headers(directory)
    assert {name: (header.dtype, header.shape) for name, header in headers.items()} == {
        "a": ("F32", (2, 3)),
        "b": ("BF16", (4,)),
    }
    assert total_bytes(directory) == (directory / "model.safetensors").stat().st_size


@pytest.mark.parametrize("kept_bytes", [0, 4, 60, -1])
def test_damaged_files_are_refused(tmp_path: Path, kept_bytes: int) -> None:
    file = write(tmp_path, a=torch.zeros(20)) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept_bytes])
    with pytest.raises(WeightsError, match=r"model\.safetensors"):
        read_headers(tmp_path)


@pytest.mark.parametrize("header", [b"[]", b'{"a": 1}', b'{"a": {"dtype": "F32"}}', b"\xff\xfe", b"no JSON"])
def test_files_of_another_kind_are_refused(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(WeightsError, match=r"model\.safetensors"):
        read_headers(tmp_path)


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="safetensors"):
        read_headers(tmp_path)
    with pytest.raises(ConfigError, match=r"config\.json"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ConfigError, match="not a JSON object"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        ({"a": torch.zeros(2, 4)}, r"a has shape \[2, 4\]; the running model has \[2, 3\]"),
        ({}, r"a is missing.*\[2, 3\]"),
        ({"a": torch.zeros(2, 3), "c": torch.zeros(1)}, r"c of shape \[1\] is not in the model"),
        ({"a": torch.zeros(2, 3, dtype=torch.int64)}, "a has type I64"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, offered: dict[str, torch.Tensor], said: str
) -> None:
    running = read_headers(write(tmp_path / "running", a=torch.zeros(2, 3), b=torch.zeros(1)))
    with pytest.raises(WeightsError, match=said):
        compare(running, read_headers(write(tmp_path / "offered", b=torch.zeros(1), **offered)))


def test_weights_of_another_float_type_fit(tmp_path: Path) -> None:
    running = read_headers(write(tmp_path / "running", a=torch.zeros(2, 3)))
    compare(running, read_headers(write(tmp_path / "offered", a=torch.zeros(2, 3, dtype=torch.bfloat16))))


def test_a_tied_head_may_be_there_or_not(tmp_path: Path) -> None:
    bare = read_headers(write(tmp_path / "bare", a=torch.zeros(1)))
    full = read_headers(write(tmp_path / "full", **{"a": torch.zeros(1), "lm_head.weight": torch.zeros(3)}))
    compare(bare, full)
    compare(full, bare)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": [], "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [[2]], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, float("inf")]},
    ],
)
def test_a_header_with_values_of_other_types_is_refused(entry: dict[str, object], tmp_path: Path) -> None:
    header = json.dumps({"a": entry}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(WeightsError):
        read_headers(tmp_path)


def test_a_header_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    header = b"[" * 100_000
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(WeightsError, match="nested too deeply"):
        read_headers(tmp_path)
