"""Weights are in memory before generation pauses for them."""

import ctypes
import mmap
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tlt_common.errors import ConfigError, WeightsError
from tlt_worker.checkpoints import read_ahead as module
from tlt_worker.checkpoints.read_ahead import read_ahead, require_numbers

SIZE = 12 * mmap.PAGESIZE


def in_memory(file: Path) -> int:
    """Return the pages of a file that are in the page cache (mincore(2))."""
    with file.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
        count = -(-len(mapped) // mmap.PAGESIZE)
        found = (ctypes.c_ubyte * count)()
        view = (ctypes.c_char * len(mapped)).from_buffer(mapped)
        failed = ctypes.CDLL(None, use_errno=True).mincore(ctypes.byref(view), ctypes.c_size_t(len(mapped)), found)
        del view
    assert not failed
    return sum(each & 1 for each in found)


def evict(file: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if in_memory(file):
        pytest.skip("this file system keeps its files in memory")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "model-00001.safetensors"
    save_file({"a": torch.zeros(SIZE // 4), "b": torch.ones(3), "none": torch.zeros(0)}, file)
    evict(file)
    return file


def test_every_page_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 5 * mmap.PAGESIZE)
    monkeypatch.setattr(module, "BUFFER_BYTES", 2 * mmap.PAGESIZE)
    read_ahead(file.parent)
    assert in_memory(file) == -(-file.stat().st_size // mmap.PAGESIZE)


@pytest.mark.parametrize("place", [0, 5 * mmap.PAGESIZE // 4, SIZE // 4 - 1])
def test_a_value_that_is_none_is_found_in_every_part(file: Path, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 5 * mmap.PAGESIZE)
    monkeypatch.setattr(module, "BUFFER_BYTES", 2 * mmap.PAGESIZE)
    values = torch.zeros(SIZE // 4)
    values[place] = float("nan")
    save_file({"a": torch.ones(2), "model.b": values}, file)
    with pytest.raises(WeightsError, match=r"tensor model\.b has values that are not finite"):
        read_ahead(file.parent)
    with pytest.raises(ConfigError, match=r"tensor model\.b has values that are not finite") as refusal:
        require_numbers(file.parent)
    assert refusal.value.field == "model"


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "gone.safetensors").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match=r"gone"):
        read_ahead(tmp_path)
