"""Headers of files that anybody may have written."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from tlt_common.errors import WeightsError
from tlt_common.weights.safetensors_file import MAX_HEADER_BYTES, entries_of


def written(file: Path, header: Any, data: bytes = b"") -> Path:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    file.write_bytes(len(content).to_bytes(8, "little") + content + data)
    return file


def tensor(*offsets: int, dtype: str = "F32", shape: tuple[int, ...] = (2,)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_a_long_header_is_read_to_its_end(tmp_path: Path) -> None:
    save_file({f"layer.{index}.weight": torch.zeros(1) for index in range(5000)}, tmp_path / "model.safetensors")
    entries = entries_of(tmp_path / "model.safetensors")
    assert len({entry.name for entry in entries}) == 5000


def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    tensors = {"b": torch.zeros(2, 3), "a": torch.ones(4, dtype=torch.bfloat16), "empty": torch.zeros(0, 7)}
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    entries = {entry.name: entry for entry in entries_of(tmp_path / "model.safetensors")}
    assert {name: entry.shape for name, entry in entries.items()} == {"b": (2, 3), "a": (4,), "empty": (0, 7)}
    assert entries["a"].read().data == tensors["a"].view(torch.uint8).numpy().tobytes()


HOSTILE = {
    "overlap": ({"a": tensor(0, 8), "b": tensor(4, 12)}, 12),
    "the same place": ({"a": tensor(0, 8), "b": tensor(0, 8)}, 8),
    "a gap": ({"a": tensor(0, 8), "b": tensor(12, 20)}, 20),
    "a gap before": ({"a": tensor(4, 12)}, 12),
    "data after the end": ({"a": tensor(0, 8)}, 9),
    "data missing": ({"a": tensor(0, 8)}, 4),
    "too little for its shape": ({"a": tensor(0, 8, shape=(3,))}, 8),
    "an enormous shape": ({"a": tensor(0, 8, shape=(2**62, 2**62))}, 8),
    "a shape of long numbers": ({"a": tensor(0, 8, shape=(10**30,))}, 8),
    "ten thousand dimensions": ({"a": tensor(0, 4, shape=(1,) * 10_000)}, 4),
    "a negative shape": ({"a": tensor(0, 8, shape=(-2, -1))}, 8),
    "offsets the wrong way round": ({"a": tensor(8, 0)}, 8),
    "an unknown type": ({"a": tensor(0, 8, dtype="Q8")}, 8),
    "no offsets": ({"a": {"dtype": "F32", "shape": [2]}}, 8),
    "a list": ([], 0),
    "a name twice": (
        b'{"a":' + json.dumps(tensor(0, 8)).encode() + b',"a":' + json.dumps(tensor(0, 8)).encode() + b"}",
        8,
    ),
    "nested deeply": (b"[" * 100_000, 0),
    "no text": (b"\xff\xfe", 0),
}


STRICTER = {"a name twice", "ten thousand dimensions"}
"""What the library accepts."""


@pytest.mark.parametrize("why", HOSTILE)
def test_what_is_not_as_announced_is_refused_as_the_library_does(tmp_path: Path, why: str) -> None:
    header, size = HOSTILE[why]
    file = written(tmp_path / "model.safetensors", header, bytes(size))
    with pytest.raises(WeightsError, match=r"model\.safetensors"):
        entries_of(file)
    if why not in STRICTER:
        with pytest.raises((SafetensorError, OverflowError)), safe_open(file, "pt") as opened:
            opened.keys()


@pytest.mark.parametrize("header_bytes", [MAX_HEADER_BYTES + 1, 2**40, 2**63])
def test_a_sparse_file_with_a_large_header_is_refused_unread(tmp_path: Path, header_bytes: int) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(header_bytes.to_bytes(8, "little") + b"{")
    os.truncate(file, min(header_bytes, 2**40) + 8)
    with pytest.raises(WeightsError, match=r"the maximum is|truncated"):
        entries_of(file)


def test_a_header_with_a_hole_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes((MAX_HEADER_BYTES - 8).to_bytes(8, "little") + b"{")
    os.truncate(file, MAX_HEADER_BYTES)
    if file.stat().st_blocks * 512 > 2**20:
        pytest.skip("this file system has no holes")
    with pytest.raises(WeightsError, match="hole"):
        entries_of(file)


def test_a_header_that_is_longer_than_what_is_read_ahead_is_read_whole(tmp_path: Path) -> None:
    tensors = {f"model.layers.{number}.mlp.up_proj.weight": torch.zeros(2, 3) for number in range(10_000)}
    save_file(tensors, tmp_path / "model.safetensors")
    assert {entry.name for entry in entries_of(tmp_path / "model.safetensors")} == tensors.keys()
